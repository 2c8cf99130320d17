#pragma once

// The name by which this program was called. kubectl runs its plugins by file name: `kubectl
// adaptdl ls` runs `kubectl-adaptdl ls`, and kubectl_complete-adaptdl completes it.

#include <string>

namespace adaptdl::cli {

enum class Invocation { adaptdl, kubectl_plugin, kubectl_completion };

// From argv[0]. Call once, before everything else.
Invocation set_invocation(const std::string& argv0);

// The command that users type: "adaptdl" or "kubectl adaptdl".
const char* program_name();
// As a plugin, commands use kubectl's current context by default.
bool is_kubectl_plugin();

}  // namespace adaptdl::cli
