#pragma once

// Plots of simulations, as SVG.

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

// One panel for each run with GPUs over time, coloured by application; below them the cumulative
// distribution of the jobs' completion times under every policy. Self-contained SVG text.
std::string plot_svg(const std::vector<PlotRun>& runs);

}  // namespace adaptdl
