#pragma once

// Profiles in the format published with Pollux and Sia: a folder for each application;
// profile_files.h describes it. Its jobs round the end of an epoch to whole seconds, as in the
// publications.

#include <string>

#include "core/sim/profiles/profile.h"

namespace adaptdl {

// Whether the folder has placements.
bool is_profile_folder(const std::string& folder);

// The application is the name of the folder. Throws Error with file, line and field.
Profile read_profile_folder(const std::string& folder);

// One file; `path` is for messages.
void parse_placements_csv(std::string text, const std::string& path, Measurements& into);
void parse_scalability_csv(std::string text, const std::string& path, Measurements& into);
void parse_validation_csv(std::string text, const std::string& path, int64_t batch,
                          ProfileData& data);

}  // namespace adaptdl
