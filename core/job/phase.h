#pragma once

// The phase of a job. It is computed from facts on each use, not stored and advanced, so a missed
// event cannot leave a job in a wrong phase.

#include <string_view>

namespace adaptdl {

// AdaptDL's phases, by its names.
enum class JobPhase { pending, starting, running, stopping, succeeded, failed };

std::string_view phase_name(JobPhase phase);  // "Pending", "Starting", ...

struct JobFacts {
  bool succeeded = false, failed = false;  // final; at most one
  int allocated = 0;                       // replicas in the allocation
  int present = 0;                         // replicas whose processes exist
  int training = 0;                        // of those, in a generation that trains
};

// Requires: training <= present; counts >= 0.
//   succeeded, failed  final
//   pending            nothing allocated, no replicas
//   stopping           nothing allocated, replicas still exist
//   running            replicas train, as many as allocated or not: a live rescale does not stop a
//                      job
//   starting           allocated, no replica trains yet
JobPhase phase_of(const JobFacts& facts);

}  // namespace adaptdl
