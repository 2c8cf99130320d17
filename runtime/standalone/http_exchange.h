#pragma once

// The little of HTTP that a supervisor understands: one request on a connection of its own. (The
// library does not link an HTTP client.)

#include <optional>
#include <string>
#include <string_view>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/net/tls.h"

namespace adaptdl::standalone {

// http://HOST[:PORT][/PATH], an IPv6 address in brackets; without a slash at the end of the path.
// https:// with `authorities`.
struct HttpBase {
  std::string host, path;
  int port = 80;
  std::optional<TlsAuthorities> authorities;  // none: in plain text
};
// Throws Error for anything else, naming `what`.
HttpBase parse_http_base(std::string_view url, std::string_view what,
                         const std::optional<TlsAuthorities>& authorities = {});

struct HttpAnswer {
  int status = 0;
  std::string body;
};

inline constexpr size_t kMostHttp = 1u << 20;  // bytes of an answer

// A whole answer: what the server sent until it closed the connection. Nothing if it is no answer
// to an HTTP/1.0 request, or not complete.
std::optional<HttpAnswer> parse_http_answer(std::string_view bytes);

// `path` comes after the base's. Throws Error "METHOD URL: ..." if no complete answer arrives by
// the deadline, or when cancelled. `body`: JSON, "" = none.
HttpAnswer http_exchange(const HttpBase& base, const std::string& method, const std::string& path,
                         const std::string& body, TimePoint deadline,
                         const Cancellation* cancel = nullptr);

}  // namespace adaptdl::standalone
