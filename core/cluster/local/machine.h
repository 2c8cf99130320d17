#pragma once

// The slots and resources of this machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/local/slot_kinds.h"
#include "core/job/job_spec.h"
#include "core/sched/cluster.h"

namespace adaptdl::local {

// A slot is one GPU or, on a machine without GPUs, one core. A job has slots of one kind.
struct Machine {
  std::string name;
  bool gpus = false;
  int slots = 1;
  int cores = 1;
  uint64_t memory = 0;  // bytes
  // A slot's number for its runner: an index into gpus(), or the core to which replicas are bound.
  // Empty if there are more slots than cores: then slots are only counted, and no replica is bound.
  std::vector<int> slot_numbers;
  // The kinds of its slots, and that of each slot, an index into `kinds`; none if all are alike.
  std::vector<std::string> kinds = {""};
  std::vector<int> slot_kinds;
  std::string common_kind;   // that of all slots if they are alike and it is known; else ""
  bool unlike_gpus = false;  // the driver's GPUs are not all alike, whatever the slots
  std::string notice;        // what its user should know of the kinds; "" if there is nothing

  std::string slot_kind() const;  // gpu, core, or shared: more slots than GPUs or cores
  int slot_number(int slot) const;
  int slot_of(int number) const;              // -1: not one of ours
  int slots_of(int kind) const;               // their number
  int most_slots(const JobSpec& spec) const;  // of one kind that the job may use
  bool has_kinds() const { return kinds.size() > 1; }
  std::string kind_name(int kind) const;  // "": not known
  bool may_use(const JobSpec& spec, int kind) const;
};

// This machine; with `slots`, as if it had those.
Machine this_machine(const std::optional<SlotCounts>& slots);

// "4 GPUs", "1 core", "8 slots".
std::string slots_text(int64_t count, const std::string& slot_kind);

// The machine as the scheduler's only node; with slots of several kinds, a node for each, in the
// order of `kinds` and named as they are. Each has all of what slots share: memory, and the cores
// beside GPUs.
std::vector<ClusterNode> nodes_of(const Machine& machine);

// That many slots as the scheduler counts them: GPUs or cores.
Resources slot_resources(const Machine& machine, int count);

// What each replica takes: slots (at least one, even if the job requests no GPU), and the amounts
// that the scheduler counts.
int slots_per_replica(const Machine& machine, const JobSpec& spec);
Resources request_of(const Machine& machine, const JobSpec& spec);

// Why not even `min_replicas` fit on slots of any one kind, naming the resource that is short where
// there are most slots; "" if they fit.
std::string shortage(const Machine& machine, const JobSpec& spec, int min_replicas);

}  // namespace adaptdl::local
