#include "core/oci/url.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::oci {
namespace {

// Where the path begins in a URL with a host; its end if there is none.
size_t path_start(std::string_view url) {
  const size_t host = url.find("://");
  const size_t end = url.find_first_of("/?#", host + 3);
  return end == std::string_view::npos ? url.size() : end;
}

// "host" of an origin, without its port.
std::string host_of(const std::string& origin) {
  const size_t begin = origin.find("://") + 3;
  const size_t colon = origin.find(':', std::max(begin, origin.find(']', begin) + 1));
  return origin.substr(begin, std::min(colon, origin.size()) - begin);
}

}  // namespace

std::string url_origin(std::string_view url) {
  std::string origin(url.substr(0, url.find_first_of("?#")));
  if (origin.find("://") == std::string::npos) return "";
  origin.resize(path_start(origin));
  for (char& c : origin) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool secure = origin.starts_with("https://");
  if (!secure && !origin.starts_with("http://")) return "";
  const std::string_view port = secure ? ":443" : ":80";
  if (origin.ends_with(port)) origin.resize(origin.size() - port.size());
  const size_t host = origin.find("://") + 3;
  const bool sound =
      origin.size() > host && origin.find_first_of("@\\ \t\r\n", host) == std::string::npos;
  return sound ? origin : "";
}

std::string resolve_location(std::string_view base, std::string_view location) {
  const std::string start(base.substr(0, path_start(base)));
  const std::string_view scheme = base.substr(0, base.find("://") + 1);
  const size_t colon = location.find("://");
  std::string url;
  if (colon != std::string_view::npos && colon < location.find_first_of("/?#")) {
    url = location;
  } else if (location.starts_with("//")) {
    url = std::string(scheme) + std::string(location);
  } else if (location.starts_with('/')) {
    url = start + std::string(location);
  } else {
    std::string_view path = base.substr(0, base.find_first_of("?#"));
    if (!location.starts_with('?')) {
      const size_t slash = path.rfind('/');
      path = slash < start.size() ? std::string_view() : path.substr(0, slash + 1);
    }
    url = (path.empty() ? start + "/" : std::string(path)) + std::string(location);
  }
  url = url.substr(0, url.find('#'));
  if (url_origin(url).empty()) {
    fail("the server redirects to \"{}\", which is not an http or https URL", location);
  }
  return url;
}

std::string keep_secure(std::string_view asked, const std::string& next) {
  const std::string from = url_origin(asked), to = url_origin(next);
  if (!from.starts_with("https://") || to.starts_with("https://")) return next;
  if (host_of(from) != host_of(to)) {
    fail("it redirects from {} to {}, where others could read and change the data", from, to);
  }
  return from + next.substr(path_start(next));
}

std::string percent_encode(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

std::string with_parameter(std::string url, std::string_view name, std::string_view value) {
  url += url.find('?') == std::string::npos ? '?' : '&';
  return url + std::string(name) + "=" + percent_encode(value);
}

}  // namespace adaptdl::oci
