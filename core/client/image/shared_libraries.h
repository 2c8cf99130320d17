#pragma once

// The shared libraries that programs are linked with, as the system's loader finds them.

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::client {

// The path of this program's loader; "" if it has none.
std::string loader_path();

struct NeededLibrary {
  std::string name;  // as the program requests it: "libstdc++.so.6"
  std::string path;  // "" if it was not found
};

// All libraries that a program or library is linked with, directly or indirectly, found with
// `folder` in LD_LIBRARY_PATH. Runs none of their code. Throws Error if the file is neither, or is
// for another kind of machine.
std::vector<NeededLibrary> needed_libraries(const std::string& file, const std::string& folder);

// Parses the loader's output for the above. For tests.
std::vector<NeededLibrary> parse_loader_list(std::string_view text);

// Whether a library is part of glibc, whose parts, including the loader, must match.
bool of_c_library(std::string_view name);

// Whether a library belongs to NVIDIA's driver, and thus comes from the host of a container.
bool of_gpu_driver(std::string_view name);

// Paths of the shared libraries that a process has mapped, from its /proc/PID/maps, recognized by
// their file names; sorted.
std::vector<std::string> mapped_libraries(std::string_view maps);

}  // namespace adaptdl::client
