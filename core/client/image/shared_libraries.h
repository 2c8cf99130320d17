#pragma once

// The shared libraries that programs are linked with, as the system's own loader finds them.

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::client {

// The loader of this program; "" if it has none.
std::string loader_path();

struct NeededLibrary {
  std::string name;  // as it is asked for: "libstdc++.so.6"
  std::string path;  // "" if there is none
};

// All that a program or library is linked with, directly or not, found with `folder` in
// LD_LIBRARY_PATH. Runs none of their code. Throws Error for a file that is neither, or is for
// another kind of machine.
std::vector<NeededLibrary> needed_libraries(const std::string& file, const std::string& folder);

// What the loader prints for the above. For tests.
std::vector<NeededLibrary> parse_loader_list(std::string_view text);

// Whether a library is part of glibc, which only works in one piece, its loader included.
bool of_c_library(std::string_view name);

// Whether it comes with NVIDIA's driver, and thus from the machine where a container runs.
bool of_gpu_driver(std::string_view name);

// Paths of the files that a process has mapped, by its /proc/PID/maps, whose names are those of
// shared libraries; sorted.
std::vector<std::string> mapped_libraries(std::string_view maps);

}  // namespace adaptdl::client
