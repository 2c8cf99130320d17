#include "core/cluster/local/scheduling.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace adaptdl::local {
namespace {

constexpr double kEventGap = 0.1;    // s between rounds when jobs come and go
constexpr double kPolicyTime = 0.3;  // s that one round may search, at most

}  // namespace

Scheduling::Scheduling(Cluster& cluster, const ServiceConfig& config, SchedulingFlags flags)
    : cluster_(cluster), flags_(std::move(flags)) {
  configure(config);
}

void Scheduling::configure(ServiceConfig config) {
  if (flags_.policy) {
    config.policy = *flags_.policy;
    config.options = flags_.options;
  }
  policy_ = make_policy(config.policy, config.options);
  AllocatorOptions options;
  options.interval_s = config.interval_s;
  options.event_gap_s = kEventGap;
  options.policy_limit_s = kPolicyTime;
  allocator_ = std::make_unique<Allocator>(cluster_, *policy_, options);
  config_ = std::move(config);
}

void Scheduling::changed() {
  allocator_->something_happened(cluster_.now_s());
}

TimePoint Scheduling::due() const {
  const Seconds left(std::max(0.0, allocator_->due() - cluster_.now_s()));
  return Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(left);
}

void Scheduling::round_if_due() {
  if (cluster_.now_s() < allocator_->due()) return;
  try {
    const AllocatorRound round = allocator_->round();
    for (const std::string& problem : round.problems) log_warning("{}", problem);
  } catch (const std::exception& error) {  // the next service would meet the same jobs
    log_error("the round failed: {}; allocations stay, and the next round tries again",
              error.what());
  }
}

}  // namespace adaptdl::local
