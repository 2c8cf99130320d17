#pragma once

// Times of Kubernetes objects as seconds since 1970, to compute with.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/kube/time.h"

namespace adaptdl::kubernetes {

inline std::string rfc3339_of(double seconds) {
  return rfc3339(kube::WallTime(std::chrono::round<kube::WallTime::duration>(Seconds(seconds))));
}

inline std::optional<double> parse_rfc3339(std::string_view text) {
  const auto time = kube::parse_time(text);
  return time ? std::optional(Seconds(time->time_since_epoch()).count()) : std::nullopt;
}

}  // namespace adaptdl::kubernetes
