#pragma once

#include <string>
#include <string_view>

namespace adaptdl::cli {

struct ReplicaRange {
  int min = 1, max = 1;  // 0 <= min <= max, max >= 1
};

// "N", or "MIN:MAX" as `--replicas` takes them. Throws UsageError that begins with `what`.
ReplicaRange parse_replica_range(const std::string& text, std::string_view what, int most);

}  // namespace adaptdl::cli
