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

// How servers are reached and known, and who asks. PEM texts.
struct HttpClientOptions {
  std::string authorities;  // whose word on a server is taken; "": find_ca_certificates()
  std::string certificate;  // this client's own, with its chain; "": none
  std::string key;          // the certificate's, without a password
  std::string server_name;  // asked for and checked instead of the URL's host; "": that host
  bool verify = true;       // false: any server is believed, for users who said so in as many words
  std::string proxy;        // http://, https:// or socks5://HOST:PORT; "": the usual variables'

  bool operator==(const HttpClientOptions&) const = default;
};

// A part of an open file, sent as a body.
struct HttpFilePart {
  int fd = -1;  // -1: none; stays its owner's
  uint64_t offset = 0, size = 0;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://
  HttpHeaders headers;
  std::string body;
  Seconds timeout{30.0};          // for all of it; 0: none
  Seconds connect_timeout{10.0};  // for name, connection and TLS; > 0
  size_t max_body = 64u << 20;    // bytes of the answer's body that are kept
  int max_redirects = 0;          // followed for GET and HEAD only; 0: a 3xx is an answer
  // If given, gets the bodies of answers 200 to 299 piece by piece as they come; they are not kept
  // then. What it throws ends the request and leaves send().
  std::function<void(std::string_view)> on_body = {};
  HttpFilePart body_file = {};                 // instead of `body`, for what is large
  std::function<void(uint64_t)> on_sent = {};  // hears how much of body_file was sent so far
  Seconds stall_timeout{0.0};                  // in which nothing moves; 0: none
  const Cancellation* cancel = nullptr;        // once cancelled, send() throws Cancelled soon
  // On a connection of its own. On one that was kept libcurl may send a request twice: when the
  // server closes it just then, nobody knows whether the first was read.
  bool only_once = false;
};

// No whole answer came.
class HttpError : public Error {
 public:
  HttpError(const std::string& message, bool may_have_arrived)
      : Error(message), may_have_arrived_(may_have_arrived) {}
  // False: nothing of the request was sent, so the server did nothing.
  bool may_have_arrived() const { return may_have_arrived_; }

 private:
  bool may_have_arrived_;
};

// Keeps connections open between requests. One thread at a time; make one per thread.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Throws HttpError "METHOD URL: ..." if no whole answer came: no such host, refused, an untrusted
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
