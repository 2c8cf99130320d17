#include <unistd.h>

#include "cli/commands.h"
#include "core/launch/hosts/link_probe.h"

namespace adaptdl::cli {
namespace {

int run_probe(const Arguments& /*arguments*/) {
  launch::serve_probe(STDIN_FILENO, STDOUT_FILENO);
  return 0;
}

}  // namespace

Command probe_command() {
  return {.name = "__probe",
          .summary = "Measure the network of this host, for doctor --hosts",
          .hidden = true,
          .run = run_probe};
}

}  // namespace adaptdl::cli
