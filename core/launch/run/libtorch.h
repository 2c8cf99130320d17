#pragma once

// Finds the LibTorch for the worker. This binary itself never loads one.

#include <string>
#include <vector>

namespace adaptdl::launch {

struct LibTorch {
  std::string source;   // "ADAPTDL_LIBTORCH", "the build's configuration", "python3"
  std::string folder;   // holds lib/libtorch_cpu.so
  std::string version;  // "2.11.0+cu130"; "" when unknown
  bool cuda = false;    // has libtorch_cuda.so
  std::string problem;  // why it is unusable, a sentence; "" if it is usable
};

// The LibTorch version that the worker was built against; "" in a build without Torch.
std::string built_with_version();

// "2.11" of "2.11.0+cu130".
std::string minor_version(const std::string& version);

// The LibTorch in a folder; `problem` says what is wrong with it, such as another version than
// `needed` (compared by major and minor; "" = any version from 2.6 on).
LibTorch examine_libtorch(const std::string& source, const std::string& folder,
                          const std::string& needed);

// All candidates, best first: ADAPTDL_LIBTORCH (when set, the only one), the folder configured at
// build time, the torch of the python3 in PATH. Asks python3 only if no earlier one is usable or
// `all` is set, for at most 5 s.
std::vector<LibTorch> find_libtorch(bool all);

// The first usable one of them. Throws an Error that names the candidates.
LibTorch choose_libtorch();

}  // namespace adaptdl::launch
