#include "core/cluster/local/next_action.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::local {

NextAction next_action(const JobState& job, int free, TimePoint now) {
  using Kind = NextAction::Kind;
  const int slots = job.cancelled ? 0 : job.wanted * job.slots_per_replica;
  if (!job.live) {
    if (job.cancelled) return {.kind = Kind::cancel};
    if (slots == 0) return {};
    if (now < job.retry_at) return {.again = job.retry_at};
    if (slots > free) return {};
    return {.kind = Kind::start, .take = slots};
  }
  if (job.stopping) {
    if (now >= job.kill_at) return {.kind = Kind::kill};
    return {.again = job.kill_at};
  }
  if (slots == 0) return {.kind = Kind::stop};
  const int granted = static_cast<int>(job.granted.size());
  if (job.scaling || slots == granted) return {};
  if (slots < granted) {
    return {.kind = Kind::scale, .keep = {job.granted.begin(), job.granted.begin() + slots}};
  }
  if (slots - granted > free) return {};
  return {.kind = Kind::scale, .take = slots - granted, .keep = job.granted};
}

double restart_delay_s(int failures) {
  return std::min(60.0, std::exp2(std::clamp(failures - 1, 0, 10)));
}

}  // namespace adaptdl::local
