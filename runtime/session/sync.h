#pragma once

// How the members of a new generation come to have the same state.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "adaptdl/named_tensor.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// How far one member is. A step (or validation) is prepared once its averaged gradient and
// everything that decides the update are there; it is applied only after all members of the
// generation said so.
struct StepMark {
  bool has_state = false;
  int64_t applied = 0;   // Progress::tick: the last step or validation that this member applied
  int64_t prepared = 0;  // applied or applied + 1
};

struct SyncPlan {
  int root = -1;          // lowest rank with the state; -1: nobody has any
  int64_t finished = 0;   // the last finished tick: to be applied by those who only prepared it
  bool receive = false;   // this member takes the root's state
  bool transfer = false;  // somebody does
};

// Pure: what member `rank` does, from everybody's marks in order of rank. A step that all members
// with state prepared is finished (somebody may have applied and announced it); a step that one of
// them has not prepared was applied by nobody, and is redone.
SyncPlan plan_sync(const std::vector<StepMark>& marks, int rank);

// Exchanges the marks; collective.
SyncPlan agree(comm::Communicator* communicator, const StepMark& mine);

// Sends the root's summary and tensors to the members that receive; the others take part without
// storing. `summary` is the root's, and everybody's afterwards; `tensors_for(summary)` gives the
// tensors to fill, the same list everywhere. Returns the bytes of the tensors. Collective; throws
// Error when the receivers' tensors are not like the root's.
uint64_t transfer(
    comm::Communicator& communicator, const SyncPlan& plan, nlohmann::json& summary,
    const std::function<std::vector<NamedTensor>(const nlohmann::json&)>& tensors_for);

}  // namespace adaptdl
