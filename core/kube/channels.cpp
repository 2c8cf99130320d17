#include "core/kube/channels.h"

#include <utility>

namespace adaptdl::kube {
namespace {

// A refused upgrade has no reason; a plain request gets the same refusal with its reason.
ApiError refusal(Client& client, const Resource& resource, const std::string& path, int status) {
  const std::string what = "connect to " + resource.describe();
  Status reason;
  reason.code = status;
  reason.message = "the server refused the connection";
  try {
    const HttpResponse plain = client.pass({.url = path});
    if (plain.status >= 400 && plain.body.find("pgrade request required") == std::string::npos) {
      reason = status_of(plain);
    }
  } catch (const HttpError&) {
    // report what is known
  }
  return {what, reason};
}

}  // namespace

std::unique_ptr<WebSocket> open_channels(Client& client, const Resource& resource,
                                         const Query& query,
                                         const std::vector<std::string>& protocols) {
  const std::string path = resource.path() + query_text(query);
  for (bool renewed = false;;) {
    const Identity identity = client.credentials().current();
    WebSocketOptions options;
    options.connection = client.config().connection;
    options.connection.certificate = identity.certificate;
    options.connection.key = identity.key;
    options.url = client.config().server + path;
    options.headers = identity.headers;
    options.protocols = protocols;
    if (client.options().trace) client.options().trace("WebSocket " + resource.path());
    try {
      auto socket = std::make_unique<WebSocket>(options);
      if (socket->protocol().empty()) {
        throw HttpError("connect to " + resource.describe() +
                            ": the server supports none of the client's protocols",
                        true);
      }
      return socket;
    } catch (const WebSocketRefused& refused) {
      if (refused.status() == 401 && !std::exchange(renewed, true) &&
          client.credentials().renew(identity)) {
        continue;
      }
      throw refusal(client, resource, path, refused.status());
    }
  }
}

}  // namespace adaptdl::kube
