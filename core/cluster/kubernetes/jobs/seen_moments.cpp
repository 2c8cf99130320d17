#include "core/cluster/kubernetes/jobs/seen_moments.h"

namespace adaptdl::kubernetes {

namespace {

constexpr double kForget = 7200;  // s; a job that waits is looked at every hour

}  // namespace

double SeenMoments::seen_s(double moment_s, TimePoint now) {
  std::erase_if(seen_, [now](const auto& entry) {
    return seconds_between(entry.second.asked, now) > kForget;
  });
  Seen& seen = seen_.try_emplace(moment_s, Seen{now, now}).first->second;
  seen.asked = now;
  return seconds_between(seen.first, now);
}

}  // namespace adaptdl::kubernetes
