#pragma once

// A small HTTP(S) client over libcurl: whole requests, whole bounded answers.

#include <cstddef>
#include <memory>
#include <string>

#include "core/base/clock.h"
#include "core/base/http_message.h"

namespace adaptdl {

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://
  HttpHeaders headers;
  std::string body;
  Seconds timeout{30.0};          // for all of it; > 0
  Seconds connect_timeout{10.0};  // for name, connection and TLS; > 0
  size_t max_body = 64u << 20;    // bytes of the answer that are accepted
  int max_redirects = 0;          // followed for GET and HEAD only; 0: a 3xx is an answer
};

// Keeps connections open between requests. One thread at a time; make one per thread. Proxies are
// taken from the usual variables (https_proxy, no_proxy).
class HttpClient {
 public:
  HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Throws Error "METHOD URL: ..." if no whole answer came: no such host, refused, an untrusted
  // certificate, out of time, an answer larger than allowed. The URL is shown without user,
  // password and query, which may be secret.
  HttpResponse send(const HttpRequest& request);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// Where the certificates of the authorities are: SSL_CERT_FILE, else the usual files of Debian,
// Red Hat, Alpine and others below `root`. Throws Error with what to do if there are none.
std::string find_ca_certificates(const std::string& root = "/");

}  // namespace adaptdl
