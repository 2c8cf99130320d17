#include <algorithm>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/launch/run.h"

namespace adaptdl::launch {

ReplicaBounds parse_replicas(const std::string& text, int available) {
  const auto refuse = [&]() -> ReplicaBounds {
    throw UsageError(
        fmt::format("--replicas: \"{}\" is not N, MIN:MAX or auto, with 1 <= MIN <= MAX <= {}.",
                    text, kMaxReplicas));
  };
  const auto count = [](std::string_view number) {
    const auto value = try_parse<int>(number);
    return value && *value >= 1 && *value <= kMaxReplicas ? *value : 0;
  };
  if (text == "auto") {
    const int most = std::clamp(available, 1, kMaxReplicas);
    return {1, most, most};
  }
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    const int only = count(text);
    return only > 0 ? ReplicaBounds{only, only, only} : refuse();
  }
  const int min = count(std::string_view(text).substr(0, colon));
  const int max = count(std::string_view(text).substr(colon + 1));
  return min > 0 && min <= max ? ReplicaBounds{min, max, max} : refuse();
}

}  // namespace adaptdl::launch
