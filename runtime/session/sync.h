#pragma once

// Brings all members of a new generation to the same state.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "adaptdl/named_tensor.h"
#include "runtime/session/seen_data.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// The position of one member. A step (or validation) is prepared when its averaged gradient and all
// inputs of the update are available. A member applies it only after all members of the generation
// have prepared it.
struct StepMark {
  bool has_state = false;
  int64_t applied = 0;   // Progress::tick: the last step or validation that this member applied
  int64_t prepared = 0;  // applied or applied + 1
  bool suspect = false;  // its state was found to differ from the majority's
  // Largest atomic batch for which the memory of its kind of accelerator suffices; 0 = not known.
  int64_t atomic_limit = 0;
  SeenData data;
};

struct SyncPlan {
  int root = -1;          // lowest rank with the state that is not suspect, or else lowest rank
                          // with the state; -1: no member has state
  int64_t finished = 0;   // the last finished tick; members that only prepared it must apply it
  bool receive = false;   // this member takes the root's state
  bool transfer = false;  // some member does
  std::vector<int64_t> atomic_limits;  // the marks', by rank
  SeenData data;                       // the root's; without one those of most members
  bool data_differ = false;            // some member sees others
};

// Returns what member `rank` must do, given all members' marks in rank order. Pure. A step is
// finished if all members with state have prepared it: one of them may have applied and announced
// it. If one has not prepared it, no member has applied it, and it is repeated.
SyncPlan plan_sync(const std::vector<StepMark>& marks, int rank);

// The smaller of two limits, of which 0 is none.
int64_t stricter(int64_t a, int64_t b);

// Exchanges the marks; collective.
SyncPlan agree(comm::Communicator* communicator, const StepMark& mine);

// Sends the root's summary and tensors to the members that receive; the others take part without
// storing. `summary` is the root's on input and on all members afterwards. `tensors_for(summary)`
// returns the tensors to fill, the same list everywhere. Returns the bytes of the tensors.
// Collective; throws Error if the receivers' tensors do not match the root's.
uint64_t transfer(
    comm::Communicator& communicator, const SyncPlan& plan, nlohmann::json& summary,
    const std::function<std::vector<NamedTensor>(const nlohmann::json&)>& tensors_for);

}  // namespace adaptdl
