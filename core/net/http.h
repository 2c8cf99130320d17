#pragma once

// A small HTTP(S) client over libcurl: whole requests, whole bounded answers or a stream of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/net/http_message.h"

namespace adaptdl {

// How to reach and verify servers, and the client's identity. Certificates and keys are PEM texts.
struct HttpClientOptions {
  std::string authorities;  // trusted CA certificates; "": find_ca_certificates()
  std::string certificate;  // this client's own, with its chain; "": none
  std::string key;          // the certificate's key, without a password
  std::string server_name;  // requested (SNI) and verified instead of the URL's host; "": that host
  bool verify = true;       // false: no verification, only on the user's explicit request
  // http://, https:// or socks5://HOST:PORT; "": from the environment, but none to loopback
  std::string proxy;

  bool operator==(const HttpClientOptions&) const = default;
};

// A part of an open file, sent as a body.
struct HttpFilePart {
  int fd = -1;  // -1: none; not owned
  uint64_t offset = 0, size = 0;
};

// Signs requests as AWS Signature Version 4 says, for the service s3. The body is signed by the
// header x-amz-content-sha256 that the caller gives (lower-case hexadecimal), which a `body_file`
// needs.
struct HttpSignature {
  std::string region, key_id, secret;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://
  HttpHeaders headers;
  std::string body;
  Seconds timeout{30.0};          // for the whole request; 0: none
  Seconds connect_timeout{10.0};  // for name, connection and TLS; > 0
  size_t max_body = 64u << 20;    // bytes of the answer's body that are kept
  int max_redirects = 0;          // followed for GET and HEAD only; 0: a 3xx is an answer
  // If given, it is called with each piece of the body of a 2xx answer as it arrives; the body is
  // not kept then. An exception from it ends the request, and send() throws it.
  std::function<void(std::string_view)> on_body = {};
  HttpFilePart body_file = {};                 // instead of `body`, for what is large
  std::function<void(uint64_t)> on_sent = {};  // called with the bytes of body_file sent so far
  Seconds stall_timeout{0.0};                  // without any data; 0: none
  const Cancellation* cancel = nullptr;        // once cancelled, send() throws Cancelled soon
  // Uses a new connection. On a kept one libcurl may send a request twice: if the server closes it
  // at that moment, the client cannot know whether the server read the first one.
  bool only_once = false;
  const HttpSignature* signature = nullptr;  // borrowed; none: not signed
};

// No complete answer arrived.
class HttpError : public Error {
 public:
  HttpError(const std::string& message, bool may_have_arrived)
      : Error(message), may_have_arrived_(may_have_arrived) {}
  // False: nothing of the request was sent, so the server did nothing.
  bool may_have_arrived() const { return may_have_arrived_; }

 private:
  bool may_have_arrived_;
};

// The server's certificate is not trusted; nothing was sent.
class HttpCertificateError : public HttpError {
 public:
  explicit HttpCertificateError(const std::string& message) : HttpError(message, false) {}
};

// The answer is larger than HttpRequest::max_body.
class HttpAnswerTooLarge : public HttpError {
 public:
  explicit HttpAnswerTooLarge(const std::string& message) : HttpError(message, true) {}
};

// Keeps connections open between requests. One thread at a time; make one per thread.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Throws HttpError "METHOD URL: ..." if no complete answer arrived: unknown host, connection
  // refused, untrusted certificate, timeout; HttpAnswerTooLarge. The URL is shown without user,
  // password and query, which may be secret.
  HttpResponse send(const HttpRequest& request);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// The file of CA certificates: SSL_CERT_FILE, else the usual files of Debian, Red Hat, Alpine and
// others below `root`. Throws Error with advice if there is none.
std::string find_ca_certificates(const std::string& root = "/");

}  // namespace adaptdl
