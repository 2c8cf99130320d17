#pragma once

// The data that replicas exchange in every optimizer step, in two small gathers.

#include <cstdint>
#include <vector>

#include "runtime/parallel/gradients.h"
#include "runtime/session/progress.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// One replica's part of a step.
struct StepReport {
  double loss_sum = 0;  // loss times samples
  double samples = 0;
  bool nonfinite = false;  // a loss, or the norm of a gradient, was not finite
  double accum_s = 0;      // seconds of one accumulation pass, mean; 0 = there was none
  double optim_s = 0;      // seconds of the last pass, gradient synchronisation included
  double sync_s = 0;       // seconds that the last pass waited for the synchronisation
  double compute_s = 0;    // seconds of all passes, without that and without reading the data
  double step_s = 0;       // duration of the previous step, in seconds, end to end
  // Rank 0 decides these for all:
  BatchPlan next_batch;
  bool next_measure = false;
  bool checkpoint = false;        // write one after this step
  std::vector<GroupNorms> norms;  // per parameter group
  std::vector<uint32_t> used;     // Gradients::used()
  std::vector<double> sums;       // the program's own, as many on each replica
  // Of a step that is cut into shards, by shard: loss times samples, of others' 0; else empty.
  std::vector<double> shard_losses;
};

// What one replica took for its part of a step, to find one that is slower than the others.
struct ReplicaTiming {
  double compute_s = 0, samples = 0, sync_s = 0;  // as in StepReport
};

// The reports of all replicas combined; the same on every replica.
struct StepSummary {
  double loss = 0;  // mean over all samples
  double samples = 0;
  bool nonfinite = false;
  double accum_s = 0, optim_s = 0, sync_s = 0;  // means over the replicas
  double slowest_s = 0;                         // largest step_s
  BatchPlan next_batch;
  bool next_measure = false;
  bool checkpoint = false;
  // Summed where they are parts. Those of the averaged gradient, which all replicas have, are rank
  // 0's: processors that add in another order, or otherwise, get other last bits, and the
  // statistics must be the same everywhere.
  std::vector<GroupNorms> norms;
  std::vector<uint32_t> used;  // by any replica
  std::vector<double> sums;
  std::vector<ReplicaTiming> timings;  // by rank
};

// First gather of a step. A lone replica's communicator is null.
StepSummary exchange(comm::Communicator* communicator, const StepReport& mine);

// Second gather: every member has prepared the tick.
struct Vote {
  int64_t prepared = 0;
  uint64_t offer = 0;   // generation that this member could switch to; 0 = none
  int64_t stop = 0;     // StopMode
  uint64_t digest = 0;  // of the Progress after it
  uint64_t state = 0;   // of a share of the parameters and optimizer state before it (StateDigest)
  uint64_t member = 0;
  // Rank 0 decides these for all:
  bool compare_state = true;  // false: leave differences for later
  bool repeated = false;      // the tick is prepared again after the members had diverged in it
};

struct Verdict {
  bool switching = false;  // all offer the same generation
  int64_t stop = 0;        // the largest
  // Members whose state or progress is not that of the majority. If there are any, the tick is not
  // finished: nobody applies it.
  std::vector<uint64_t> diverged;
};

// Throws Error if the members' digests of a repeated tick still differ: they cannot train together.
Verdict commit(comm::Communicator* communicator, const Vote& mine);

// The verdict on all members' votes, by rank. Pure; throws as commit().
Verdict count_votes(const std::vector<Vote>& votes);

}  // namespace adaptdl
