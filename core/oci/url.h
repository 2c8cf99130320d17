#pragma once

// What of URLs registries need. Pure functions, thread-safe.

#include <string>
#include <string_view>

namespace adaptdl::oci {

// "https://host:5000", in lower case and without a usual port; "" for what is no http(s) URL, or
// has a user in it.
std::string url_origin(std::string_view url);

// Where a header Location leads that came in the answer to `base` (a whole URL): it may be whole,
// without a scheme (//host/path), a path from the root, or relative. Its query is kept. Throws
// Error if it is no http(s) URL.
std::string resolve_location(std::string_view base, std::string_view location);

// `next`, where to go on from `asked` (both whole), but never in the clear after TLS: what leads to
// the same host by http is meant for `asked`'s own origin, by a server that does not know of the
// TLS in front of it. Throws Error if it leads to another host by http.
std::string keep_secure(std::string_view asked, const std::string& next);

// Everything but letters, digits and - . _ ~ as %XX.
std::string percent_encode(std::string_view text);

// The URL with NAME=VALUE added to its query; the value is encoded.
std::string with_parameter(std::string url, std::string_view name, std::string_view value);

}  // namespace adaptdl::oci
