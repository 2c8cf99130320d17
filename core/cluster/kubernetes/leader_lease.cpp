#include "core/cluster/kubernetes/leader_lease.h"

#include <cmath>

#include "core/base/clock.h"

namespace adaptdl::kubernetes {

std::optional<Json> LeaderLease::next(const std::optional<Json>& lease, double now_s,
                                      double wall_s) {
  if (lease != seen_) {
    seen_ = lease;
    seen_s_ = now_s;
  }
  std::string holder;
  double lasts_s = options_.lease_s;
  if (lease && lease->is_object()) {
    try {
      holder = json_get_or<std::string>(*lease, "holderIdentity", "lease", "");
      lasts_s = json_get_or<double>(*lease, "leaseDurationSeconds", "lease", lasts_s);
      transitions_ = json_get_or<int>(*lease, "leaseTransitions", "lease", 0);
    } catch (const Error&) {  // not ours; it expires if it does not change for a while
    }
  }
  const bool mine = holder == options_.identity;
  if (!mine) {
    renewed_s_.reset();
    if (!holder.empty() && now_s - seen_s_ < lasts_s) return std::nullopt;
    if (lease) ++transitions_;
  }
  if (!mine || acquired_.empty()) acquired_ = rfc3339(wall_s, 6);
  return Json{{"holderIdentity", options_.identity},
              {"leaseDurationSeconds", static_cast<int>(std::ceil(options_.lease_s))},
              {"acquireTime", acquired_},
              {"renewTime", rfc3339(wall_s, 6)},
              {"leaseTransitions", transitions_}};
}

void LeaderLease::renewed(double now_s) {
  renewed_s_ = now_s;
}

bool LeaderLease::leads(double now_s) const {
  return renewed_s_ && now_s - *renewed_s_ < options_.renew_s;
}

Json LeaderLease::released(double wall_s) const {
  return {{"holderIdentity", ""},
          {"leaseDurationSeconds", 1},
          {"acquireTime", rfc3339(wall_s, 6)},
          {"renewTime", rfc3339(wall_s, 6)},
          {"leaseTransitions", transitions_}};
}

}  // namespace adaptdl::kubernetes
