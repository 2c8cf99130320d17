#pragma once

// Pictures of simulations, as SVG.

#include <string>
#include <vector>

#include "core/sim/simulation.h"
#include "core/sim/timeline.h"

namespace adaptdl {

struct PlotRun {
  std::string policy;
  std::vector<GpuSpan> spans;
  std::vector<JobResult> jobs;
  int gpus = 0;
};

// One panel for each run: GPUs over time, coloured by application; below them the jobs' completion
// times under every policy: how many jobs have taken no longer than ... Self-contained SVG text.
std::string plot_svg(const std::vector<PlotRun>& runs);

}  // namespace adaptdl
