#include "core/kube/trace.h"

#include <algorithm>

#include "core/base/number.h"

namespace adaptdl::kube {
namespace {

constexpr size_t kMaxBody = 4096;

// Shows a parameter's value unless its name indicates a secret.
std::string shown_query(std::string_view url) {
  const size_t begin = url.find('?');
  if (begin == std::string_view::npos) return "";
  std::string text = "?";
  std::string_view rest = url.substr(begin + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::string_view name = pair.substr(0, pair.find('='));
    bool secret = false;
    for (const std::string_view word : {"token", "password", "secret", "key", "sig", "command"}) {
      secret = secret || name.find(word) != std::string_view::npos;
    }
    if (text.size() > 1) text += '&';
    text += secret ? std::string(name) + "=..." : std::string(pair);
  }
  return text;
}

std::string shown(const std::string& url) {
  std::string text = url.substr(0, url.find_first_of("?#"));
  const size_t host = text.find("://");
  const size_t at = text.find('@');
  if (host != std::string::npos && at < text.find('/', host + 3)) {
    text.erase(host + 3, at - host - 2);
  }
  return text + shown_query(url);
}

// By path rather than by kind, because a patch of a Secret does not contain its kind.
bool secret_path(std::string_view url) {
  const std::string_view path = url.substr(0, url.find('?'));
  for (const std::string_view part : {"/secrets", "/token", "/tokenreviews", "/proxy/"}) {
    if (path.find(part) != std::string_view::npos) return true;
  }
  return false;
}

std::string shown_body(const std::string& body, const std::string& url) {
  if (body.empty()) return "";
  const bool json = body.front() == '{' || body.front() == '[';
  if (!json || secret_path(url) || body.find("\"Secret\"") != std::string::npos) {
    return fmt::format("  ({} of body, not shown)", format_bytes(body.size()));
  }
  if (body.size() <= kMaxBody) return "  " + body;
  return fmt::format("  {}... ({} in all)", body.substr(0, kMaxBody), format_bytes(body.size()));
}

std::string with_body(const std::string& text, const std::string& body) {
  return body.empty() ? text : text + "\n" + body;
}

}  // namespace

std::string request_trace(const HttpRequest& request) {
  std::string text = request.method + " " + shown(request.url);
  for (const auto& [name, value] : request.headers) {
    text += fmt::format("\n  {}: {}", name, name == "Authorization" ? "..." : value);
  }
  return with_body(text, shown_body(request.body, request.url));
}

std::string response_trace(const HttpRequest& request, const HttpResponse& response,
                           Seconds duration) {
  std::string text = fmt::format("{} {}: {} in {}", request.method, shown(request.url),
                                 response.status, format_duration(duration.count()));
  if (const auto after = response.header("retry-after")) text += "\n  Retry-After: " + *after;
  return with_body(text, shown_body(response.body, request.url));
}

}  // namespace adaptdl::kube
