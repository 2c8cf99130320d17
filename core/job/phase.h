#pragma once

// Where a job is on its way, and how one sees it. Phases are computed from facts each time they are
// wanted, not stored and stepped, so that one that was missed cannot leave a job in a wrong phase.

#include <string_view>

namespace adaptdl {

// AdaptDL's phases, by its names.
enum class JobPhase { pending, starting, running, stopping, succeeded, failed };

std::string_view phase_name(JobPhase phase);  // "Pending", "Starting", ...

struct JobFacts {
  bool succeeded = false, failed = false;  // for good; at most one
  int allocated = 0;                       // replicas that the allocation has room for
  int present = 0;                         // replicas whose processes are there
  int training = 0;                        // of those, in a generation that trains
};

// Requires: training <= present; counts >= 0.
//   succeeded, failed  for good
//   pending            nothing allocated, nothing there
//   stopping           nothing allocated, replicas still there
//   running            replicas train, be they as many as allocated or not: a live rescale does not
//                      stop a job
//   starting           allocated, nobody trains yet
JobPhase phase_of(const JobFacts& facts);

}  // namespace adaptdl
