#pragma once

// How many replicas a job or run may have, in the syntax of command lines and job files.

#include <optional>
#include <string_view>

namespace adaptdl {

// The most replicas that a job may request. A cluster may allocate fewer.
inline constexpr int kMostReplicas = 1'000'000;

struct ReplicaRange {
  int min = 1;
  std::optional<int> max = 1;  // none: no upper bound
  bool fixed = false;          // given as one number: always that many

  bool operator==(const ReplicaRange&) const = default;
};

struct ReplicaLimits {
  int least = 0;  // smallest MIN; N and MAX are at least 1
  int most = kMostReplicas;
  bool open = false;           // "MIN:", without an upper bound, is allowed
  std::string_view also = "";  // another word that the caller accepts, for messages
};

// "N", "MIN:MAX", or "MIN:" if `limits` allow it. Throws Error "WHERE: ...".
ReplicaRange parse_replica_range(std::string_view text, std::string_view where,
                                 const ReplicaLimits& limits = {});

// The same of a command line: throws UsageError.
ReplicaRange replica_range_argument(std::string_view text, std::string_view flag,
                                    const ReplicaLimits& limits = {});

}  // namespace adaptdl
