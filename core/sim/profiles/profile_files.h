#pragma once

// Reads profiles from files: the format published with Pollux and Sia (a folder for each
// application, profile_folder.h), and our YAML format with one application per file
// (profile_yaml.h).
//
//   DIR/APP/placements.csv    placement,local_bsz,step_time,sync_time: a digit for each node's GPUs
//   DIR/APP/scalability.csv   num_nodes,num_replicas,local_bsz,step_time,sync_time; optional
//   DIR/APP/validation-M.csv  progress,iteration,metric,grad_sqr,grad_var, one for each batch M
//   DIR/APP/bounds.yaml       optional; any of the bounds below, and:
//     slowdown: 1.2           # multiplies all times; default: 1
//     told_rescale_s: 30      # see ProfileData
//     kinds: {rtx: {atomic_max: 57}}
//
// Where the cluster has several kinds of accelerators, placements-KIND.csv and scalability-KIND.csv
// take the place of the first two. Of several rows with equal placement and batch, or size and
// batch, the mean counts; a size that is among the placements is left out.
//
//   DIR/APP.yaml:
//     initial_batch: 128      # bounds, all optional: see ProfileData
//     max_batch: 4096
//     atomic_min: 32
//     atomic_max: 1024
//     max_replicas: 64
//     fixed_batch: 1024
//     rescale_s: 2.5
//     start_s: 4
//     placements:
//       - {gpus: [4, 4], atomic: 32, step_s: 0.12, sync_s: 0.07}
//     sizes:                  # optional
//       - {nodes: 6, replicas: 6, atomic: 32, step_s: 0.14, sync_s: 0.1}
//     kinds:                  # by accelerator kind; instead of the lists above, or beside them
//       a100:
//         atomic_max: 4096    # or atomic_min, of this kind
//         placements: []      # and sizes, as above
//     validation:
//       - batch: 128
//         epochs:
//           - {progress: 391, iterations: 390, grad_sqr: 8.9, grad_var: 5.1}
//
// Published applications were simulated with numbers that their files do not contain
// (published_bounds.h). They apply to folders of these names without a bounds.yaml.

#include <map>
#include <string>

#include "core/sim/profiles/profile.h"

namespace adaptdl {

// By application.
using Profiles = std::map<std::string, Profile>;

// Reads every folder with placements and every .yaml file in `directory`, and ignores
// anything else in it. Throws Error with file, line and field for invalid values, for a duplicate
// application, and if there is none.
Profiles read_profiles(const std::string& directory);

}  // namespace adaptdl
