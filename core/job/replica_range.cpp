#include "core/job/replica_range.h"

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {

ReplicaRange parse_replica_range(std::string_view text, std::string_view where,
                                 const ReplicaLimits& limits) {
  const auto number = [&](std::string_view part, int low) {
    const auto value = try_parse<int>(part);
    if (!value || *value < low || *value > limits.most) {
      fail(
          "{}: invalid replica range \"{}\": give N{}{}{} or MIN:MAX, with {} <= MIN <= MAX, and N "
          "and MAX from 1 to {}",
          where, text, limits.open ? ", MIN:" : "", limits.also.empty() ? "" : ", ", limits.also,
          limits.least, limits.most);
    }
    return *value;
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const int only = number(text, 1);
    return {only, only, true};
  }
  const int min = number(text.substr(0, colon), limits.least);
  const std::string_view rest = text.substr(colon + 1);
  if (limits.open && rest.empty()) return {min, std::nullopt, false};
  return {min, number(rest, min > 1 ? min : 1), false};
}

ReplicaRange replica_range_argument(std::string_view text, std::string_view flag,
                                    const ReplicaLimits& limits) {
  try {
    return parse_replica_range(text, flag, limits);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace adaptdl
