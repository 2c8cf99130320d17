#pragma once

// What replicas of an open loop exchange between an epoch's batches and its validation, where all
// of them come, newcomers too.
//
// When the generation breaks, some may have finished a call that others have not, and newcomers
// have made none. So each call begins with the number of calls that each replica has finished;
// results are kept until the next step, and those who are behind get them.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/standalone/fold.h"

namespace adaptdl {

// Of one replica. `tick`: Progress::tick. Both calls are collective; of comm::Aborted: make the
// same call again in the next generation. A null communicator: a lone replica.
class EpochCollectives {
 public:
  std::string next(comm::Communicator* communicator, int64_t tick, const std::string& mine,
                   const standalone::Fold& fold);
  // This replica makes no more calls in this epoch. Returns once all say so. Throws Error if others
  // still want to make one.
  void leave(comm::Communicator* communicator, int64_t tick);

 private:
  // Helps those who are behind, and gets what this replica lacks. Whether all make the same call.
  bool meet(comm::Communicator& communicator, bool leaving);
  void begin(int64_t tick);

  int64_t tick_ = -1;
  std::vector<std::string> results_;  // of the calls in this tick
};

}  // namespace adaptdl
