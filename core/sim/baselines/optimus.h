#pragma once

// Optimus (EuroSys'18) as the simulator published with Pollux (OSDI'21) runs it, to compare with:
// GPUs go, one by one, to the job whose remaining time they shorten most. It is told the true step
// times and how many steps each job has left, which no scheduler can know.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "core/policy/policy.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// What is true of a simulated job. The profile is borrowed.
struct TrueJob {
  const Profile* profile = nullptr;
  int epochs_finished = 0;
  int64_t batch_size = 1;  // total, its user's
};

// Keeps step times between calls, which never change. One thread at a time.
class Optimus : public Policy {
 public:
  // `lookup` is asked for every job of a snapshot, by name. What it names must live as long.
  explicit Optimus(std::function<TrueJob(const std::string& name)> lookup)
      : lookup_(std::move(lookup)) {}

  // Throws Error also for what check_published() refuses. Jobs have at least one replica, whatever
  // min_replicas says; what they are given is 0 if it stays below. Seed and budget have no effect.
  // O(GPUs * jobs).
  Decision decide(const Snapshot& snapshot, uint64_t seed, const SearchBudget& budget) override;

 private:
  // Seconds for one step of the whole batch on `replicas` GPUs, packed on as few nodes as possible.
  double step_s(const TrueJob& job, int replicas, int gpus_per_node);

  std::function<TrueJob(const std::string& name)> lookup_;
  // By profile (whose address is only compared), batch, replicas and GPUs per node.
  std::map<std::tuple<const Profile*, int64_t, int, int>, double> known_;
};

}  // namespace adaptdl
