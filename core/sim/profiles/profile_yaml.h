#pragma once

// Profiles in our YAML format; profile_files.h describes it. Its jobs end their epochs exactly.

#include <string>
#include <string_view>

#include "core/formats/yaml.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {

// The application is the name of the file without folder and suffix. Throws Error with file, line
// and field.
Profile read_profile_yaml(const std::string& path);

// The same from a text; `path` is for messages.
ProfileData parse_profile_yaml(std::string_view text, const std::string& path);

// From a mapping that is a part of another file.
ProfileData profile_from(const YamlNode& profile, const std::string& application);

// The bounds in a mapping, of all kinds or of one.
void read_bounds(YamlMapping& from, ProfileData& data);
void read_kind_bounds(YamlMapping& from, Measurements& into);

// The YAML file that reads back as `data`, except for the last digits. `heading`: a comment of one
// or more lines; "" for none.
std::string profile_yaml(const ProfileData& data, const std::string& heading);

// A mapping of a file of measurements, which may be large.
YamlMapping profile_mapping(std::string_view text, const std::string& path);

// Adds the path to the Profile's errors.
Profile checked_profile(ProfileData data, const std::string& path);

}  // namespace adaptdl
