#include "core/job/accelerators.h"

#include <algorithm>
#include <fnmatch.h>

#include "core/base/error.h"

namespace adaptdl {

std::string accelerators_problem(const Accelerators& accelerators) {
  if (accelerators.size() > kMostAccelerators) {
    return fmt::format("there are {} names; at most {} are allowed", accelerators.size(),
                       kMostAccelerators);
  }
  for (const std::string& name : accelerators) {
    if (name.empty()) return "a name is empty";
    if (name.size() > kLongestAccelerator) {
      return fmt::format("a name has more than {} bytes", kLongestAccelerator);
    }
    if (name.find(',') != std::string::npos) return fmt::format("{}: a name has no comma", name);
  }
  return "";
}

bool among(const Accelerators& accelerators, const std::string& kind) {
  if (accelerators.empty()) return true;
  return !kind.empty() &&
         std::any_of(accelerators.begin(), accelerators.end(), [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), kind.c_str(), FNM_CASEFOLD | FNM_NOESCAPE) == 0;
         });
}

}  // namespace adaptdl
