#include "core/sim/profiles/profile_files.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/sim/profiles/profile_folder.h"
#include "core/sim/profiles/profile_yaml.h"

namespace adaptdl {

Profiles read_profiles(const std::string& directory) {
  Profiles profiles;
  const auto add = [&](Profile profile, const std::string& path) {
    const std::string name = profile.application();
    if (!profiles.emplace(name, std::move(profile)).second) {
      fail("{}: application {} has a folder and a YAML file; remove one of them", path, name);
    }
  };
  for (const auto& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    if (name.ends_with(".yaml")) {
      add(read_profile_yaml(path), path);
    } else if (is_profile_folder(path)) {
      add(read_profile_folder(path), path);
    }
  }
  if (profiles.empty()) {
    fail(
        "{}: contains no profile; it needs folders with placements.csv or placements-KIND.csv, or "
        ".yaml files",
        directory);
  }
  return profiles;
}

}  // namespace adaptdl
