#pragma once

// Reading profiles from files: the format published with Pollux (a folder for each application),
// and a YAML file of our own that holds one application. Jobs of the former count the end of an
// epoch in whole seconds, as was published; those of the latter exactly.
//
//   DIR/APP/placements.csv    placement,local_bsz,step_time,sync_time: a digit for each node's GPUs
//   DIR/APP/scalability.csv   num_nodes,num_replicas,local_bsz,step_time,sync_time; may be missing
//   DIR/APP/validation-M.csv  progress,iteration,metric,grad_sqr,grad_var, one for each batch M
//   DIR/APP/bounds.yaml       may be missing; any of the bounds below
//   DIR/APP.yaml:
//     initial_batch: 128      # bounds; all may be missing: see ProfileData
//     max_batch: 4096
//     atomic_min: 32
//     atomic_max: 1024
//     max_replicas: 64
//     fixed_batch: 1024
//     rescale_s: 2.5
//     start_s: 4
//     placements:
//       - {gpus: [4, 4], atomic: 32, step_s: 0.12, sync_s: 0.07}
//     sizes:                  # may be missing
//       - {nodes: 6, replicas: 6, atomic: 32, step_s: 0.14, sync_s: 0.1}
//     validation:
//       - batch: 128
//         epochs:
//           - {progress: 391, iterations: 390, grad_sqr: 8.9, grad_var: 5.1}
//
// Two of the published applications were simulated under bounds that their files do not tell:
// yolov3 (atomic_max 8) and ncf (max_replicas 1, fixed_batch 32768). They hold for folders of these
// names that have no bounds.yaml.

#include <map>
#include <string>
#include <string_view>

#include "core/formats/yaml.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// By application.
using Profiles = std::map<std::string, Profile>;

// Every folder with a placements.csv and every .yaml file in `directory`; anything else in it is
// left alone. Throws Error naming file, line and field for what is wrong, when an application is
// there twice, and when there is none.
Profiles read_profiles(const std::string& directory);

// One published folder, one YAML file; the application is the name without folder and suffix.
Profile read_profile_folder(const std::string& folder);
Profile read_profile_yaml(const std::string& path);

// The YAML file that reads back as this, but for the last digits. `heading`: a comment, one line or
// more; "" for none.
std::string profile_yaml(const ProfileData& data, const std::string& heading);

// The same from texts, `path` being for messages.
ProfileData parse_profile_yaml(std::string_view text, const std::string& path);
// From a mapping that is a part of another file.
ProfileData profile_from(const YamlNode& profile, const std::string& application);
void parse_placements_csv(std::string text, const std::string& path, ProfileData& data);
void parse_scalability_csv(std::string text, const std::string& path, ProfileData& data);
void parse_validation_csv(std::string text, const std::string& path, int64_t batch,
                          ProfileData& data);

}  // namespace adaptdl
