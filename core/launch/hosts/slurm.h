#pragma once

// A run in a job of Slurm. `#SBATCH --signal=USR1@60` announces the end of the job's time by a
// signal that says nothing to other programs, and so may a preemption.

#include <signal.h>
#include <string>

#include "core/launch/io/output_queue.h"

namespace adaptdl::launch {

// While it lives, SIGUSR1 and SIGUSR2 mean SIGTERM in a job of Slurm, elsewhere what they did
// before. One at a time.
class SlurmNotice {
 public:
  SlurmNotice();
  SlurmNotice(const SlurmNotice&) = delete;
  SlurmNotice& operator=(const SlurmNotice&) = delete;
  ~SlurmNotice();

  // After a run that was stopped: if Slurm wants the time or the nodes back, has it start the job's
  // batch script again, with the same id, when there are some. That ends the job, this process too.
  // Not if the user cancels the job, or does not want it requeued, or if the run has finished no
  // step (`trained`), since it would go on like that for ever. Never throws.
  void requeue_job(bool trained, const Talk& talk) const;

 private:
  std::string job_;  // ""; not in a job
  struct sigaction before_[2]{};
};

// "": none; otherwise advice for a command that runs on one node of several that its job has.
std::string unused_nodes();

}  // namespace adaptdl::launch
