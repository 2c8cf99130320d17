#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/goodput/goodput.h"

namespace adaptdl {

// What a job has told about itself. Anything may be missing: a new job has told nothing yet.
struct JobHints {
  std::optional<PerfParams> perf;                  // on the accelerators that it has run on
  std::map<std::string, PerfParams> perf_by_kind;  // by accelerator kind, where several are known
  std::optional<GradParams> grad;
  std::optional<BatchBounds> batch;          // none: the batch is not the scheduler's matter
  int max_profiled_replicas = 0;             // most replicas it has measured itself with
  std::optional<double> remaining_progress;  // scale-invariant iterations to its end, >= 0
  std::optional<double> rescale_cost_s;      // what a change of its allocation costs, >= 0
  // Until new replicas take part, seconds >= 0; those that are there train on meanwhile. None: it
  // is a part of rescale_cost_s.
  std::optional<double> start_cost_s;
};

}  // namespace adaptdl
