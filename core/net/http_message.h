#pragma once

// Types that the HTTP client and the server share.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptdl {

// The host as in a URL: an IPv6 address in brackets.
inline std::string url_host(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The first one of that name; `headers` are received ones, whose names are in lower case.
inline std::optional<std::string> find_header(const HttpHeaders& headers,
                                              std::string_view lower_case_name) {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return std::nullopt;
}

struct HttpResponse {
  int status = 0;       // 200 to 599; to a client, any that the server gave: 404 is an answer
  HttpHeaders headers;  // received: names in lower case, in the server's order
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
  std::optional<std::string> header(std::string_view lower_case_name) const {
    return find_header(headers, lower_case_name);
  }
};

}  // namespace adaptdl
