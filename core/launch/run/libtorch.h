#pragma once

// Which LibTorch the worker runs with. This binary itself never loads one.

#include <string>
#include <vector>

namespace adaptdl::launch {

struct LibTorch {
  std::string source;   // "ADAPTDL_LIBTORCH", "the build's configuration", "python3"
  std::string folder;   // holds lib/libtorch_cpu.so
  std::string version;  // "2.11.0+cu130"; "" when the folder does not say
  bool cuda = false;    // brings libtorch_cuda.so
  std::string problem;  // a sentence when it cannot be used; else ""
};

// What the worker was built against; "" in a build without Torch.
std::string built_with_version();

// "2.11" of "2.11.0+cu130".
std::string minor_version(const std::string& version);

// The LibTorch in a folder; `problem` says what is wrong with it, such as another version than
// `needed` (compared by major and minor; "" = any from 2.6 on).
LibTorch examine_libtorch(const std::string& source, const std::string& folder,
                          const std::string& needed);

// All places that are looked at, best first: ADAPTDL_LIBTORCH (when set, the only one), the folder
// configured at build time, the torch of the python3 in PATH. Asks python3 only when no earlier one
// can be used, for at most 5 s, or when `all` is wanted.
std::vector<LibTorch> find_libtorch(bool all);

// The first of those that can be used. Throws Error that says what was looked at.
LibTorch choose_libtorch();

}  // namespace adaptdl::launch
