#pragma once

// Optimus (EuroSys'18) as the simulator published with Pollux (OSDI'21) runs it, for comparison. It
// gives GPUs, one by one, to the job whose remaining time they shorten most. It gets the true step
// times and the remaining steps of each job, which no real scheduler knows.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "core/policy/policy.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// The true state of a simulated job. Borrows the profile.
struct TrueJob {
  const Profile* profile = nullptr;
  std::string kind;  // of the accelerators
  int epochs_finished = 0;
  int64_t batch_size = 1;  // total, its user's
};

// Keeps step times, which never change, between calls. One thread at a time.
class Optimus : public Policy {
 public:
  // Calls `lookup` with the name of every job of a snapshot. The returned profiles must outlive
  // this object.
  explicit Optimus(std::function<TrueJob(const std::string& name)> lookup)
      : lookup_(std::move(lookup)) {}

  // Throws Error also for snapshots that check_published() rejects. Each job starts with one
  // replica, also if min_replicas is larger; a job that stays below min_replicas gets 0. Seed and
  // budget have no effect. O(GPUs * jobs).
  Decision decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) override;

 private:
  // Seconds for one step of the whole batch on `replicas` GPUs, packed on as few nodes as possible.
  double step_s(const TrueJob& job, int replicas, int gpus_per_node);

  std::function<TrueJob(const std::string& name)> lookup_;
  // By profile (whose address is only compared), batch, replicas and GPUs per node.
  std::map<std::tuple<const Profile*, int64_t, int, int>, double> known_;
};

}  // namespace adaptdl
