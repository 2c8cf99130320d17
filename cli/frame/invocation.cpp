#include "cli/frame/invocation.h"

#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

Invocation invocation = Invocation::adaptdl;

}  // namespace

Invocation set_invocation(const std::string& argv0) {
  const std::string name = file_name(argv0);
  if (name == "kubectl-adaptdl") invocation = Invocation::kubectl_plugin;
  if (name == "kubectl_complete-adaptdl") invocation = Invocation::kubectl_completion;
  return invocation;
}

const char* program_name() {
  return is_kubectl_plugin() ? "kubectl adaptdl" : "adaptdl";
}

bool is_kubectl_plugin() {
  return invocation != Invocation::adaptdl;
}

}  // namespace adaptdl::cli
