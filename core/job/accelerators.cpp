#include "core/job/accelerators.h"

#include <algorithm>
#include <fnmatch.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace adaptdl {

Accelerators parse_accelerators(std::string_view text) {
  Accelerators accelerators = split(text, ',');
  check_accelerators(accelerators);
  return accelerators;
}

void check_accelerators(const Accelerators& accelerators) {
  if (accelerators.size() > kMostAccelerators) {
    fail("there are {} names; at most {} are allowed", accelerators.size(), kMostAccelerators);
  }
  for (const std::string& name : accelerators) {
    if (name.empty()) fail("a name is empty");
    if (name.size() > kLongestAccelerator) {
      fail("a name has more than {} bytes", kLongestAccelerator);
    }
    if (name.find(',') != std::string::npos) fail("{}: a name has no comma", name);
  }
}

bool among(const Accelerators& accelerators, const std::string& kind) {
  if (accelerators.empty()) return true;
  return !kind.empty() &&
         std::any_of(accelerators.begin(), accelerators.end(), [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), kind.c_str(), FNM_CASEFOLD | FNM_NOESCAPE) == 0;
         });
}

}  // namespace adaptdl
