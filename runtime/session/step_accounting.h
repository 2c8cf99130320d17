#pragma once

// What a step does to the progress: statistics, learning rates, iterations, epochs and limits. The
// same numbers in, the same numbers out: every replica computes it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/data/sampler.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/session/prepared.h"

namespace adaptdl {

// D / M0, of D training samples; whole ones if what does not fill a batch is dropped, as of
// continuous data. Requires samples >= 1.
double iterations_per_epoch(const TrainingSpec& spec, int64_t samples);

class StepAccounting {
 public:
  // Borrows all but the number of training samples.
  StepAccounting(Program& program, const Optimizer& optimizer, const Schedule& schedule,
                 const TrainingSpec& spec, int64_t samples)
      : program_(program),
        optimizer_(optimizer),
        schedule_(schedule),
        spec_(spec),
        samples_(static_cast<double>(samples)),
        iterations_per_epoch_(adaptdl::iterations_per_epoch(spec, samples)) {}

  double iterations_per_epoch() const { return iterations_per_epoch_; }
  // Passes over the data: by the samples taken, or with an adaptive batch by their worth.
  double epochs(const Progress& progress) const;

  // In this order, from a summary of all replicas in `prepared.facts`:

  // Adds a measured step to the statistics of `prepared.after`. `steps`: its batches. `compared`: a
  // lone replica's gradient was compared with the one before.
  void add_statistics(Prepared& prepared, const Progress& before,
                      const std::vector<data::Step>& steps, bool compared) const;
  // The rates of the update, by the statistics of `prepared.after`.
  void set_rates(Prepared& prepared, const Progress& before) const;
  // That of the first parameter group in the next step, if it is whole and adds nothing to the
  // statistics of `progress`.
  double next_lr(const Progress& progress, int replicas) const;
  // Counts the step, moves the position past its batches, and completes its facts but for the time.
  // `sums`: names of the program's own, as in the summary.
  void end_step(Prepared& prepared, const Progress& before, const std::vector<data::Step>& steps,
                const std::vector<std::string>& sums) const;

 private:
  double iterations_after(double before, const data::Step& last, double scale) const;
  void advance(Progress& after, const data::Step& last, double iterations) const;

  Program& program_;
  const Optimizer& optimizer_;
  const Schedule& schedule_;
  const TrainingSpec& spec_;
  double samples_;
  double iterations_per_epoch_;
};

}  // namespace adaptdl
