#include "core/sim/baselines/fixed_batch.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr double kRounding = 1e-8;  // a quotient this little above an integer is that integer

int64_t ceil_quotient(int64_t dividend, int64_t divisor) {
  const double quotient = static_cast<double>(dividend) / static_cast<double>(divisor);
  return static_cast<int64_t>(std::ceil(quotient - kRounding));
}

}  // namespace

BatchChoice share_batch(const BatchBounds& bounds, int64_t total, int replicas,
                        bool lone_accumulates) {
  ADAPTDL_CHECK(total >= 1 && replicas >= 1);
  const int64_t atomic_max = bounds.atomic_max > 0 ? bounds.atomic_max : bounds.max;
  const int64_t local = ceil_quotient(total, replicas);
  int64_t steps = ceil_quotient(local, atomic_max) - 1;
  if (replicas == 1 && (total > bounds.initial || lone_accumulates)) {
    steps = std::max<int64_t>(steps, 1);
  }
  steps = std::min<int64_t>(steps, kMostAccumulation);
  const int64_t share = ceil_quotient(local, steps + 1);
  const int64_t most = bounds.max / (replicas * (steps + 1));
  return {.atomic = std::max<int64_t>(1, std::min(share, most)),
          .accum_steps = static_cast<int>(steps)};
}

}  // namespace adaptdl
