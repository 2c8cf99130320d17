#include "core/oci/reference.h"

#include <algorithm>
#include <arpa/inet.h>
#include <vector>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/net/addresses.h"

namespace adaptdl::oci {
namespace {

constexpr size_t kMaxName = 255, kMaxTag = 128;
constexpr std::string_view kHub = "docker.io";

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_lower(c) || is_upper(c) || is_digit(c);
}

// Letters and digits, separated by ".", "_", "__" or any number of "-".
bool is_path_part(std::string_view part) {
  const auto letter = [](char c) { return is_lower(c) || is_digit(c); };
  if (part.empty() || !letter(part.front()) || !letter(part.back())) return false;
  for (size_t at = 0; at < part.size();) {
    if (letter(part[at])) {
      ++at;
      continue;
    }
    const char separator = part[at];
    size_t count = 0;
    while (part[at] == separator) ++at, ++count;  // ends: the last one is a letter
    const bool sound = letter(part[at]) && (separator == '-' || (separator == '_' && count <= 2) ||
                                            (separator == '.' && count == 1));
    if (!sound) return false;
  }
  return true;
}

bool is_host_name(std::string_view host) {
  const std::vector<std::string> parts = split(host, '.');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    return !part.empty() && part.front() != '-' && part.back() != '-' &&
           std::all_of(part.begin(), part.end(), [](char c) { return is_word(c) || c == '-'; });
  });
}

bool is_port(std::string_view text) {
  const auto port = try_parse<uint16_t>(text);
  return port && *port > 0 && is_digit(text.front());
}

// The host without port and brackets.
std::string_view bare_host(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_registry(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    in6_addr address{};
    const std::string inside(text.substr(1, end - 1));
    const std::string_view rest = text.substr(end + 1);
    return inet_pton(AF_INET6, inside.c_str(), &address) == 1 &&
           (rest.empty() || (rest.front() == ':' && is_port(rest.substr(1))));
  }
  const size_t colon = text.find(':');
  return is_host_name(text.substr(0, colon)) &&
         (colon == std::string_view::npos || is_port(text.substr(colon + 1)));
}

bool is_tag(std::string_view tag) {
  return !tag.empty() && tag.size() <= kMaxTag && tag.front() != '.' && tag.front() != '-' &&
         std::all_of(tag.begin(), tag.end(),
                     [](char c) { return is_word(c) || c == '_' || c == '.' || c == '-'; });
}

}  // namespace

bool is_digest(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  return text.size() == kPrefix.size() + 64 && text.starts_with(kPrefix) &&
         text.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

Reference parse_repository(std::string_view text, std::string_view what) {
  const Reference reference = parse_reference(text, what);
  if (!reference.digest.empty()) {
    fail(
        "{}: {} names a digest, but the pushed image determines its digest; give only the "
        "repository",
        what, text);
  }
  Reference result = reference;
  const size_t name = text.rfind('/') == std::string_view::npos ? 0 : text.rfind('/');
  if (text.find(':', name) == std::string_view::npos) result.tag.clear();
  return result;
}

Reference parse_reference(std::string_view text, std::string_view what) {
  Reference result;
  std::string_view rest = text;
  const auto refuse = [&](std::string_view why) {
    fail("{}: {} is not an image name: {}; write it like registry.example.com/team/name:tag", what,
         text.empty() ? "\"\"" : text, why);
  };
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    result.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_digest(result.digest)) {
      refuse("a digest must follow @: sha256: and 64 digits of 0-9, a-f");
    }
  }
  const size_t slash = rest.find('/');
  const std::string_view first = rest.substr(0, slash);
  const bool has_registry =
      slash != std::string_view::npos &&
      (first.find_first_of(".:[") != std::string_view::npos || first == "localhost" ||
       std::any_of(first.begin(), first.end(), is_upper));
  if (has_registry) {
    if (!is_registry(first)) refuse(fmt::format("{} is not a registry host", first));
    result.registry = first;
    rest.remove_prefix(slash + 1);
  } else {
    result.registry = kHub;
  }
  if (result.registry == "index.docker.io" || result.registry == "registry-1.docker.io") {
    result.registry = kHub;
  }
  const size_t last = rest.rfind('/') == std::string_view::npos ? 0 : rest.rfind('/');
  if (const size_t colon = rest.find(':', last); colon != std::string_view::npos) {
    result.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_tag(result.tag)) {
      refuse("a tag has at most 128 letters, digits, _ . and -, and does not begin with . or -");
    }
  }
  if (result.tag.empty() && result.digest.empty()) result.tag = "latest";
  const std::vector<std::string> parts = split(rest, '/');
  for (const std::string& part : parts) {
    if (!is_path_part(part)) {
      refuse("its parts are lower-case letters and digits, with . _ - between them");
    }
  }
  result.repository = rest;
  if (result.registry == kHub && parts.size() == 1) {
    result.repository = "library/" + result.repository;
  }
  if (result.registry.size() + 1 + result.repository.size() > kMaxName) {
    refuse("it is longer than 255 characters");
  }
  return result;
}

std::string to_string(const Reference& reference) {
  std::string text = reference.registry + "/" + reference.repository;
  if (!reference.tag.empty()) text += ":" + reference.tag;
  if (!reference.digest.empty()) text += "@" + reference.digest;
  return text;
}

std::string registry_host(const std::string& registry) {
  return registry == kHub ? "registry-1.docker.io" : registry;
}

bool on_this_machine(std::string_view host) {
  return is_loopback(std::string(bare_host(host)));
}

}  // namespace adaptdl::oci
