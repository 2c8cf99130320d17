#pragma once

// Which file a program's name means.

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

// The files that execvp would try for `program`, in order: a name with a slash is a path; another
// one is looked for in the folders of `search`, a value of PATH, of which an empty one is the
// working directory. `directory`: stands before relative ones; "": nothing does.
std::vector<std::string> program_places(const std::string& program, std::string_view search,
                                        const std::string& directory = "");

struct ProgramPath {
  std::string path;         // "": there is none
  bool executable = false;  // by this process
};

// The first of these that is executable, else the first that exists. Folders do not count.
ProgramPath find_in_path(const std::string& program, std::string_view search,
                         const std::string& directory = "");

}  // namespace adaptdl
