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

// The transfer of a blob, for a display.
struct BlobProgress {
  enum class State { present, mounted, sending, receiving, done };
  std::string digest;
  State state = State::sending;
  uint64_t bytes = 0, size = 0;  // transferred so far, in total
};

// A proxy that serves the registry's "/v2/" instead of its own host.
struct RegistryProxy {
  std::string url = {};                       // without a slash at its end; "": no proxy
  std::function<HttpHeaders()> headers = {};  // of each request to the proxy: authentication
  HttpClientOptions http = {};                // how to verify the proxy
};

struct RegistryOptions {
  bool plain_http = false;  // speak plain HTTP, wherever the registry is
  RegistryProxy proxy = {};
  const Cancellation* cancel = nullptr;
  std::function<void(const BlobProgress&)> progress = {};
  // Called with a line for each answer: method, URL without its query, status, time. No secrets.
  std::function<void(const std::string&)> trace = {};
  // Waits between attempts; for tests. Default: sleeps until cancelled.
  std::function<void(Seconds)> pause = {};
};

struct RegistryRequest {
  std::string method = "GET";
  std::string url;  // whole, or a path from "/v2/" on
  HttpHeaders headers = {};
  std::string body = {};
  HttpFilePart file = {};                // a body from a file instead
  std::vector<std::string> scopes = {};  // what the token must allow, the push scope first
  std::function<void(std::string_view)> on_body = {};
  std::function<void(uint64_t)> on_sent = {};
  std::function<void()> before_try = {};  // before each attempt, as `on_body` starts again
  bool retry = true;                      // if the server is busy or the connection is lost
};

// One thread.
class Transport {
 public:
  // `registry` as Reference::registry.
  Transport(std::string registry, Credential credential, RegistryOptions options);

  // Sends the request and returns the answer. Retries 408, 429 and 5xx: three attempts, 1 s and 3 s
  // apart, or as Retry-After says; the last attempt's answer is returned. A 401 of the registry
  // itself is never returned, nor a 403, except to HEAD, whose answer does not tell why. Follows
  // redirects of GET and HEAD; requests to other hosts never get the registry's authorisation. The
  // first request detects whether the registry speaks TLS. Throws Error, with ExitCode::auth if
  // access is refused for lack of credentials, and HttpError.
  HttpResponse send(const RegistryRequest& request);

  // Retries an operation of several requests as send() retries one.
  HttpResponse retry(const std::function<HttpResponse()>& attempt) {
    return with_retries(true, attempt);
  }

  // url() makes a full URL of a path. location() returns an answer's Location, rewritten to the
  // proxy if there is one, and to TLS if `asked` used TLS; it throws Error if it then leads to
  // another host by plain HTTP.
  std::string url(const std::string& path);
  std::string location(const HttpResponse& answer, const std::string& asked);

  const std::string& registry() const { return registry_; }
  const RegistryOptions& options() const { return options_; }

 private:
  void connect();
  HttpHeaders proxy_headers() const;
  HttpResponse ping(const std::string& base);
  HttpResponse send_authorised(const RegistryRequest& request);
  std::string what_to_do(int refusal) const;  // about a status 401 or 403
  // `own`: from the registry or its proxy, not from a host it redirected to.
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

// Whether a later attempt may succeed: 408, 429 and 5xx.
bool is_passing(int status);

// The registry's error message: "BLOB_UNKNOWN: blob unknown to registry", or the status alone.
std::string registry_problem(const HttpResponse& answer);

}  // namespace adaptdl::oci
