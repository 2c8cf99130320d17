#pragma once

// Requests to one registry: the right scheme, authorisation, retries, redirects.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/net/http.h"
#include "core/oci/auth.h"
#include "core/oci/credentials.h"

namespace adaptdl::oci {

// A blob on its way, for a display.
struct BlobProgress {
  enum class State { present, mounted, sending, receiving, done };
  std::string digest;
  State state = State::sending;
  uint64_t bytes = 0, size = 0;  // moved so far, of so many
};

// Where a registry's "/v2/" is, if not at its own host.
struct RegistryProxy {
  std::string url = {};                       // without a slash at its end; "": no proxy
  std::function<HttpHeaders()> headers = {};  // of each request to there: who asks
  HttpClientOptions http = {};                // how it is known
};

struct RegistryOptions {
  bool plain_http = false;  // speak plain HTTP, wherever the registry is
  RegistryProxy proxy = {};
  const Cancellation* cancel = nullptr;
  std::function<void(const BlobProgress&)> progress = {};
  // Hears a line for each answer: method, address without its query, status, time. No secrets.
  std::function<void(const std::string&)> trace = {};
  // Waits between tries; for tests. Default: sleeps, until cancelled.
  std::function<void(Seconds)> pause = {};
};

struct RegistryRequest {
  std::string method = "GET";
  std::string url;  // whole, or a path from "/v2/" on
  HttpHeaders headers = {};
  std::string body = {};
  HttpFilePart file = {};                // a body from a file instead
  std::vector<std::string> scopes = {};  // what the token must allow, what pushes first
  std::function<void(std::string_view)> on_body = {};
  std::function<void(uint64_t)> on_sent = {};
  std::function<void()> before_try = {};  // each time that `on_body` begins anew
  bool retry = true;                      // when the server is busy or the connection is lost
};

// One thread.
class Transport {
 public:
  // `registry` as Reference::registry.
  Transport(std::string registry, Credential credential, RegistryOptions options);

  // The answer: any status but 401 of the registry itself, and but 408, 429 and 5xx that a retry
  // may mend, as long as tries are left: there are three, 1 s and 3 s apart, or when Retry-After
  // says. Redirects of GET and HEAD are followed; neither they nor addresses elsewhere that the
  // registry named get its authorisation. The first request finds out whether the registry speaks
  // TLS. Throws Error, with ExitCode::auth when access is refused for lack of credentials, and
  // HttpError.
  HttpResponse send(const RegistryRequest& request);

  // What takes several requests, again as send() does with one.
  HttpResponse retry(const std::function<HttpResponse()>& attempt) {
    return with_retries(true, attempt);
  }

  // A path as a whole URL; and an answer's Location, in the place of the proxy if there is one, and
  // by TLS if `asked` was. Throws Error if it leads to another host by plain HTTP then.
  std::string url(const std::string& path);
  std::string location(const HttpResponse& answer, const std::string& asked);

  const std::string& registry() const { return registry_; }
  const RegistryOptions& options() const { return options_; }

 private:
  void connect();
  HttpHeaders proxy_headers() const;
  HttpResponse ping(const std::string& base);
  HttpResponse send_authorised(const RegistryRequest& request);
  // `own`: the registry's, or its proxy's; not of where it sent the request.
  struct Answer {
    HttpResponse response;
    bool own = true;
  };
  Answer send_following(const RegistryRequest& request, const std::string& authorisation);
  HttpResponse send_once(const HttpRequest& request);
  HttpResponse with_retries(bool retry, const std::function<HttpResponse()>& send);

  std::string registry_;
  RegistryOptions options_;
  HttpClient client_;
  RegistryAuth auth_;
  std::string base_;  // "" until connected
};

// What the registry says is wrong: "BLOB_UNKNOWN: blob unknown to registry", or the status alone.
std::string registry_problem(const HttpResponse& answer);

}  // namespace adaptdl::oci
