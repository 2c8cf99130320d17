#pragma once

// Tiresias (NSDI'19) as the simulator published with Pollux (OSDI'21) runs it, for comparison: two
// queues, discretised by attained GPU time. Every job gets the replicas that its user requested, or
// none. Jobs with less than 16 GPU hours go first; within a queue, in the order of joining it.

#include <map>
#include <string>
#include <vector>

#include "core/policy/policy.h"

namespace adaptdl {

// Keeps the queues between calls: one object for each simulation. One thread at a time.
class Tiresias : public Policy {
 public:
  static constexpr double kThreshold = 57600;  // GPU seconds

  // Throws Error also for snapshots that check_published() rejects. Clamps requested_replicas to
  // the job's bounds. Seed and budget have no effect. O(jobs * nodes).
  Decision decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) override;

 private:
  struct Known {
    double executed_s = 0;  // with an allocation
    double age_s = 0;       // when it was last seen
    bool present = false;   // in this round's snapshot
  };

  void update_queues(const Snapshot& snapshot);

  std::map<std::string, Known> known_;
  std::vector<std::string> queues_[2];
};

}  // namespace adaptdl
