#pragma once

// Numbers with which the published simulators ran their applications, and which the published files
// do not contain.

#include <optional>
#include <string_view>

#include "core/sim/profiles/profile.h"

namespace adaptdl {

// Fills in what is known of the application. `by_kind`: it is from the data published with Sia
// (SOSP'23, artifact), which has files by kind; else with Pollux (OSDI'21, artifact). Returns the
// factor by which steps are slower than in the files; 1 for an unknown application.
double add_published_bounds(std::string_view application, bool by_kind, ProfileData& data);

}  // namespace adaptdl
