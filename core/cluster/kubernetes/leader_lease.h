#pragma once

// Chooses the leader of several operators: it renews a Lease (coordination.k8s.io/v1). Pure, so
// that tests can control clocks and failures. The caller reads and writes the Lease with its
// resourceVersion, so that of two simultaneous writes one gets 409.
// As in client-go's leaderelection, another operator's lease expires when this process has seen it
// unchanged for lease_s; the times in it do not count, since clocks differ. The defaults are
// somewhat shorter than client-go's, so that a new leader acts within 20 s.

#include <optional>
#include <string>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

struct LeaderLeaseOptions {
  std::string identity;  // of this process; unique, such as a pod's name and a random number
  double lease_s = 12;   // a lease expires when unchanged for this time
  double renew_s = 8;    // the leader gives up after this time without a successful renewal
  double retry_s = 2;    // between looks
};

class LeaderLease {
 public:
  explicit LeaderLease(LeaderLeaseOptions options) : options_(std::move(options)) {}

  // The Lease's spec to write now; nothing if another operator leads. `lease`: the spec as just
  // read, nothing if there is no Lease. `now_s`: of a monotonic clock; `wall_s`: since 1970, for
  // the times in the Lease.
  std::optional<Json> next(const std::optional<Json>& lease, double now_s, double wall_s);

  // Call it after writing what next() returned.
  void renewed(double now_s);

  // Whether this process may act as the leader. A leader that could not renew for renew_s must
  // stop at once: after lease_s another one leads.
  bool leads(double now_s) const;

  // The spec to write when this process ends, so that the next leader need not wait.
  Json released(double wall_s) const;

 private:
  LeaderLeaseOptions options_;
  std::optional<Json> seen_;
  double seen_s_ = 0;
  std::optional<double> renewed_s_;
  int transitions_ = 0;
  std::string acquired_;
};

}  // namespace adaptdl::kubernetes
