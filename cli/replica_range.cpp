#include "cli/replica_range.h"

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl::cli {

ReplicaRange parse_replica_range(const std::string& text, std::string_view what, int most) {
  const size_t colon = text.find(':');
  ReplicaRange range;
  try {
    if (colon == std::string::npos) {
      range.min = range.max = static_cast<int>(parse_int(text, what, 1, most));
    } else {
      range.min = static_cast<int>(parse_int(text.substr(0, colon), what, 0, most));
      range.max = static_cast<int>(parse_int(text.substr(colon + 1), what, 1, most));
    }
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  if (range.min > range.max) {
    throw UsageError(fmt::format("{}: {}: the first number is above the second.", what, text));
  }
  return range;
}

}  // namespace adaptdl::cli
