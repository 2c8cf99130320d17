#include "core/kube/throttle.h"

#include <algorithm>

namespace adaptdl::kube {

Throttle::Throttle(double qps, int burst) {
  if (qps > 0) bucket_.emplace(qps, burst, Monotonic::now());
}

Seconds Throttle::pause(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return Seconds(std::max(0.0, seconds_between(now, paused_until_)));
}

void Throttle::refused(Seconds retry_after, TimePoint now) {
  const Seconds pause =
      retry_after > Seconds(0) ? std::min(retry_after, kLongestPause) : kUsualPause;
  const TimePoint until = now + std::chrono::duration_cast<Monotonic::duration>(pause);
  const std::lock_guard lock(mutex_);
  paused_until_ = std::max(paused_until_, until);
}

Seconds Throttle::reserve(TimePoint now) {
  const std::lock_guard lock(mutex_);
  return bucket_ ? bucket_->reserve(now) : Seconds(0);
}

}  // namespace adaptdl::kube
