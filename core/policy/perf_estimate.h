#pragma once

// Estimates how fast a job is on kinds of accelerators that it has not used.

#include <optional>
#include <string>
#include <vector>

#include "core/goodput/goodput_table.h"
#include "core/policy/snapshot.h"

namespace adaptdl {

// Sia (SOSP'23, section 3.3) multiplies the model of a kind A that the job has measured by x_B(1) /
// x_A(1), the throughputs of one replica, and measures x_B(1) on purpose. Here no job runs only to
// be measured: unless the job knows both speeds, the ratio is the median over the jobs that have
// measured both kinds, and 1 if there are none. Immutable, any thread.
class PerfEstimate {
 public:
  // Borrows nothing. O(jobs * kinds^2).
  PerfEstimate(const Snapshot& snapshot, const std::vector<std::string>& kinds);

  // The job's step times on a kind (an index into `kinds`): measured there; else estimated from the
  // first kind, in the order of names, that it has measured; else its hints without a kind. Empty
  // for a job that has measured nothing.
  std::optional<PerfParams> on(const JobHints& hints, size_t kind) const;

  // The job's goodput there, with batches that fit into the memory of the kind where it was
  // measured: the ratio of speeds counts in what larger ones would bring. Of a job that has
  // measured nothing, for each replica: its speed if it knows that, else what other jobs found, in
  // units of the first kind's. `power`: how that grows with the replicas (GoodputTable). `most`:
  // the largest total batch, if that is less than its own; 0: none.
  GoodputTable table(const JobHints& hints, size_t kind, double power = 1, int64_t most = 0) const;

 private:
  struct Source {
    std::optional<PerfParams> perf;
    size_t kind = 0;  // on which it was measured
  };
  Source source(const JobHints& hints, size_t kind) const;
  double ratio(const JobHints& hints, size_t from, size_t to) const;

  std::vector<std::string> kinds_;
  std::vector<double> speed_;  // from * kinds + to: throughput on `to` / throughput on `from`
};

}  // namespace adaptdl
