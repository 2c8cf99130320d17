#pragma once

// URL functions for registries. Pure functions, thread-safe.

#include <string>
#include <string_view>

namespace adaptdl::oci {

// "https://host:5000", in lower case and without a default port; "" if it is not an http(s) URL, or
// contains a user.
std::string url_origin(std::string_view url);

// Resolves a header Location from the answer to `base` (a full URL). `location` may be a full URL,
// without a scheme (//host/path), a path from the root, or relative. Keeps its query. Throws Error
// if the result is not an http(s) URL.
std::string resolve_location(std::string_view base, std::string_view location);

// Returns `next`, the redirect target of `asked` (both full URLs), but never downgrades from TLS. A
// redirect to the same host by http becomes one to `asked`'s origin, because a server behind a TLS
// proxy may not know about TLS. Throws Error for a redirect to another host by http.
std::string keep_secure(std::string_view asked, const std::string& next);

// Everything but letters, digits and - . _ ~ as %XX.
std::string percent_encode(std::string_view text);

// The URL with NAME=VALUE added to its query; the value is encoded.
std::string with_parameter(std::string url, std::string_view name, std::string_view value);

}  // namespace adaptdl::oci
