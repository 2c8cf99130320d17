#include "core/kube/resource.h"

#include <fmt/format.h>

namespace adaptdl::kube {

std::string Resource::path() const {
  std::string text = group.empty()
                         ? "/api/" + percent_encoded(version)
                         : "/apis/" + percent_encoded(group) + "/" + percent_encoded(version);
  if (!name_space.empty()) text += "/namespaces/" + percent_encoded(name_space);
  text += "/" + percent_encoded(plural);
  if (!name.empty()) text += "/" + percent_encoded(name);
  if (!subresource.empty()) text += "/" + percent_encoded(subresource);
  return text;
}

std::string Resource::describe() const {
  std::string text = plural;
  if (!group.empty()) text += "." + group;
  if (!name.empty()) text += "/" + name;
  if (!subresource.empty()) text += "/" + subresource;
  if (!name_space.empty()) text += " in " + name_space;
  return text;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string result;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string query_text(const Query& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    text += text.empty() ? '?' : '&';
    text += percent_encoded(name) + "=" + percent_encoded(value);
  }
  return text;
}

std::string service_proxy_path(std::string_view name_space, std::string_view service,
                               std::string_view port, std::string_view rest) {
  return fmt::format("/api/v1/namespaces/{}/services/{}:{}/proxy{}", percent_encoded(name_space),
                     percent_encoded(service), percent_encoded(port), rest);
}

}  // namespace adaptdl::kube
