#pragma once

// Reads profiles from files: the format published with Pollux (a folder for each application), and
// our YAML format with one application per file. Jobs of the published format round the end of an
// epoch to whole seconds, as in the publication; jobs of the YAML format are exact.
//
//   DIR/APP/placements.csv    placement,local_bsz,step_time,sync_time: a digit for each node's GPUs
//   DIR/APP/scalability.csv   num_nodes,num_replicas,local_bsz,step_time,sync_time; optional
//   DIR/APP/validation-M.csv  progress,iteration,metric,grad_sqr,grad_var, one for each batch M
//   DIR/APP/bounds.yaml       optional; any of the bounds below
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
//     validation:
//       - batch: 128
//         epochs:
//           - {progress: 391, iterations: 390, grad_sqr: 8.9, grad_var: 5.1}
//
// Two of the published applications were simulated with bounds that their files do not contain:
// yolov3 (atomic_max 8) and ncf (max_replicas 1, fixed_batch 32768). These bounds apply to folders
// of these names without a bounds.yaml.

#include <map>
#include <string>
#include <string_view>

#include "core/formats/yaml.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// By application.
using Profiles = std::map<std::string, Profile>;

// Reads every folder with a placements.csv and every .yaml file in `directory`, and ignores
// anything else in it. Throws Error with file, line and field for invalid values, for a duplicate
// application, and if there is none.
Profiles read_profiles(const std::string& directory);

// One published folder, one YAML file; the application is the name without folder and suffix.
Profile read_profile_folder(const std::string& folder);
Profile read_profile_yaml(const std::string& path);

// The YAML file that reads back as `data`, except for the last digits. `heading`: a comment of one
// or more lines; "" for none.
std::string profile_yaml(const ProfileData& data, const std::string& heading);

// The same from texts; `path` is for messages.
ProfileData parse_profile_yaml(std::string_view text, const std::string& path);
// From a mapping that is a part of another file.
ProfileData profile_from(const YamlNode& profile, const std::string& application);
void parse_placements_csv(std::string text, const std::string& path, ProfileData& data);
void parse_scalability_csv(std::string text, const std::string& path, ProfileData& data);
void parse_validation_csv(std::string text, const std::string& path, int64_t batch,
                          ProfileData& data);

}  // namespace adaptdl
