#include "runtime/standalone/place.h"

#include <fmt/format.h>

#include "core/base/crypto.h"

namespace adaptdl::standalone {

std::optional<TlsKey> meeting_key(const Place& place) {
  if (place.link_key.empty()) return std::nullopt;
  const std::string which = fmt::format("adaptdl replicas\n{}", place.restarts);
  return TlsKey(hmac_sha256(bytes_of(place.link_key), bytes_of(which)));
}

}  // namespace adaptdl::standalone
