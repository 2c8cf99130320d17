#pragma once

// How fast a job is on kinds of accelerators that it has not run on.

#include <optional>
#include <string>
#include <vector>

#include "core/policy/snapshot.h"

namespace adaptdl {

// Sia (SOSP'23, section 3.3) takes the model of a kind A that the job has measured, times
// x_B(1) / x_A(1), the throughputs of one replica, of which x_B(1) is measured on purpose. Here
// nobody is run only to be measured: the ratio is the median over the jobs that know both kinds,
// and 1 where there are none. Immutable, any thread.
class PerfEstimate {
 public:
  // Borrows nothing. O(jobs * kinds^2).
  PerfEstimate(const Snapshot& snapshot, const std::vector<std::string>& kinds);

  // The job's step times on a kind (an index into `kinds`): measured there; else estimated from the
  // first kind, in the order of names, that it has measured; else what it says of all kinds alike.
  // Nothing for a job that has measured nothing.
  std::optional<PerfParams> on(const JobHints& hints, size_t kind) const;

 private:
  std::vector<std::string> kinds_;
  std::vector<double> speed_;  // from * kinds + to: throughput on `to` / throughput on `from`
};

}  // namespace adaptdl
