#include "core/sched/hint_limiter.h"

#include <utility>

namespace adaptdl {

std::optional<SentHints> HintLimiter::put(SentHints sent, TimePoint now) {
  const TokenBucket full(1 / kInterval.count(), kBurst, now);
  Job& job = jobs_.try_emplace(sent.job_namespace + "/" + sent.name, Job{full, {}}).first->second;
  job.newest.reset();
  if (job.bucket.take(now)) return sent;
  job.newest = std::move(sent);
  return std::nullopt;
}

std::vector<SentHints> HintLimiter::take(TimePoint now) {
  std::vector<SentHints> due;
  for (auto& [name, job] : jobs_) {
    if (job.newest && job.bucket.take(now)) due.push_back(*std::exchange(job.newest, {}));
  }
  std::erase_if(jobs_, [&](const auto& job) { return job.second.bucket.full(now); });
  return due;
}

}  // namespace adaptdl
