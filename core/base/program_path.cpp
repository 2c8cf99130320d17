#include "core/base/program_path.h"

#include <unistd.h>

#include "core/base/files.h"
#include "core/base/text.h"

namespace adaptdl {

std::vector<std::string> program_places(const std::string& program, std::string_view search,
                                        const std::string& directory) {
  if (program.find('/') != std::string::npos) return {join_path(directory, program)};
  std::vector<std::string> places;
  for (const std::string& folder : split(search, ':')) {
    places.push_back(join_path(join_path(directory, folder.empty() ? "." : folder), program));
  }
  return places;
}

ProgramPath find_in_path(const std::string& program, std::string_view search,
                         const std::string& directory) {
  ProgramPath found;
  for (const std::string& place : program_places(program, search, directory)) {
    if (!path_exists(place) || is_directory(place)) continue;
    const bool executable = ::access(place.c_str(), X_OK) == 0;
    if (found.path.empty() || executable) found = {place, executable};
    if (executable) break;
  }
  return found;
}

}  // namespace adaptdl
