#pragma once

// Who leads, of several operators: a Lease (coordination.k8s.io/v1) that the leader renews. A pure
// part, so that clocks and failures can be tried; the caller reads and writes the Lease with its
// resourceVersion, so that of two who write at once one is told 409.
// As client-go's leaderelection: another's lease is judged by how long this process has seen it
// unchanged, never by the times in it, since clocks differ. The times are somewhat shorter, so that
// another acts within 20 s.

#include <optional>
#include <string>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

struct LeaderLeaseOptions {
  std::string identity;  // of this process: unique, as a pod's name and a random number
  double lease_s = 12;   // unchanged so long, a lease is over
  double renew_s = 8;    // the leader gives up after so long without a successful renewal
  double retry_s = 2;    // between looks
};

class LeaderLease {
 public:
  explicit LeaderLease(LeaderLeaseOptions options) : options_(std::move(options)) {}

  // The Lease's spec to write now, or nothing: somebody else leads. `lease` is the spec as just
  // read, nothing if there is no Lease. `now_s`: of a clock that does not jump; `wall_s`: since
  // 1970, for the times written.
  std::optional<Json> next(const std::optional<Json>& lease, double now_s, double wall_s);

  // What next() returned has been written.
  void renewed(double now_s);

  // Whether this process may act as the leader. A leader that could not renew for renew_s must
  // stop at once: after lease_s another one leads.
  bool leads(double now_s) const;

  // The spec to write when this process ends: nobody has to wait then.
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
