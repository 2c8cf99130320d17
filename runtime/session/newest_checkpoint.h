#pragma once

// Where replicas' hosts have checkpoint folders of their own: who reads a checkpoint for all, and
// who writes each one a second time, so that the newest survives the loss of any host. All members
// of a generation decide the same. Torch-free.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/store.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// The folders of a generation's members, by rank: those with the same number share one; 0 is the
// launcher's.
using Folders = std::vector<int>;

// Whether no lower rank has the same folder. Pure.
bool first_in_folder(const Folders& folders, int rank);

// The rank that writes a copy of what rank 0 writes: the first in another folder; -1: there is
// none. Pure.
int copying_rank(const Folders& folders);

// The newest checkpoint that a member can read. Plain data, sent as it is.
struct HeldCheckpoint {
  int64_t fresh_at = 0;   // as TrainingState::fresh_at
  int64_t step = -1;      // -1: none is usable
  bool verified = false;  // all of it was read; else its manifest
  bool damaged = false;   // none is usable, but some are there

  bool usable() const { return step >= 0; }
  // It is of a training that --fresh began later, whatever its step; or has more steps. What sides
  // of one training have computed that had lost each other is worth the same, step by step.
  bool newer_than(const HeldCheckpoint& other) const;
};

// What a checkpoint counts for a run of that name, which --fresh began at `fresh_at`. Pure.
HeldCheckpoint held(const CheckpointHeader& header, const std::string& name, int64_t fresh_at);

// The lowest rank that has the newest one. If none is usable: the lowest with a damaged one, or -1.
// Pure. Requires: `all` is not empty.
int newest_holder(const std::vector<HeldCheckpoint>& all);

struct CheckpointSearch {
  std::string name;      // of the run
  int64_t fresh_at = 0;  // checkpoints of trainings that began before are none
  Folders folders;
  int rank = 0;
};

struct NewestCheckpoint {
  int root = 0;  // the member that has it or, if there is none, begins from nothing
  std::optional<LoadedCheckpoint> loaded;  // by the root
  std::vector<std::string> problems;       // of the root's: why newer ones are not usable
};

// Collective; the root may read for long. `store`: this member's; none: it has no folder.
// `communicator`: null for a single member. Throws Error as CheckpointStore::latest().
NewestCheckpoint find_newest_checkpoint(comm::Communicator* communicator,
                                        const CheckpointSearch& search,
                                        const std::optional<CheckpointStore>& store);

}  // namespace adaptdl
