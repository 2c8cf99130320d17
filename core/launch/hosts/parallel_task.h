#pragma once

// Commands that start one process on each host (srun, mpirun), as the environment shows them.

#include <optional>
#include <string>

namespace adaptdl::launch {

struct ParallelTask {
  std::string starter;  // for people
  int rank = 0;
  int count = 1;
  // Differs from that of every other start, and is the same for all tasks of one; "": unknown.
  std::string start;
};

// This process as one of several that were started together; nothing if it is alone. Knows Slurm's
// srun (job steps), Open MPI, and those that speak PMI as MPICH and Intel MPI do.
std::optional<ParallelTask> parallel_task();

}  // namespace adaptdl::launch
