#pragma once

// The slots and resources of this machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job_spec.h"
#include "core/sched/cluster.h"

namespace adaptdl::local {

// A slot is one GPU or, on a machine without GPUs, one core.
struct Machine {
  std::string name;
  bool gpus = false;
  int slots = 1;
  int cores = 1;
  uint64_t memory = 0;  // bytes
  // A slot's number for its runner: an index into gpus(), or the core to which replicas are bound.
  // Empty if there are more slots than cores: then slots are only counted, and no replica is bound.
  std::vector<int> slot_numbers;

  std::string slot_kind() const;  // gpu, core, or shared: more slots than GPUs or cores
  int slot_number(int slot) const;
  int slot_of(int number) const;  // -1: not one of ours
};

// This machine; with `slots`, as if it had that many.
Machine this_machine(std::optional<int> slots);

// "4 GPUs", "1 core", "8 slots".
std::string slots_text(int64_t count, const std::string& slot_kind);

// The machine as the scheduler's only node.
ClusterNode node_of(const Machine& machine);

// What each replica takes: slots (at least one, even if the job requests no GPU), and the amounts
// that the scheduler counts.
int slots_per_replica(const Machine& machine, const JobSpec& spec);
Resources request_of(const Machine& machine, const JobSpec& spec);

// Why not even `min_replicas` fit, naming the resource that is short; "" if they fit.
std::string shortage(const Machine& machine, const JobSpec& spec, int min_replicas);

}  // namespace adaptdl::local
