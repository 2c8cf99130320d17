#pragma once

// What a kubeconfig lets its user choose from.

#include <string>
#include <vector>

#include "core/kube/config.h"

namespace adaptdl::kube {

// What ConfigOptions::context could name, in the files' order.
struct ContextName {
  std::string name, server, name_space;  // "" for what the files do not say
  bool current = false;
};

// None if there is no kubeconfig. Throws Error for a file that is none.
std::vector<ContextName> list_contexts(const ConfigOptions& options);
// The same, for tests.
std::vector<ContextName> list_contexts(const ConfigOptions& options, Environment environment);

}  // namespace adaptdl::kube
