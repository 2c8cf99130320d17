#pragma once

// As what this program was called. kubectl runs programs of its users by their names:
// `kubectl adaptdl ls` is `kubectl-adaptdl ls`, and completes it by kubectl_complete-adaptdl.

#include <string>

namespace adaptdl::cli {

enum class Invocation { adaptdl, kubectl_plugin, kubectl_completion };

// By argv[0]. To be called once, before all else.
Invocation set_invocation(const std::string& argv0);

// What users type: "adaptdl" or "kubectl adaptdl".
const char* program_name();
// As a plugin commands are about kubectl's current context, if nothing else is said.
bool is_kubectl_plugin();

}  // namespace adaptdl::cli
