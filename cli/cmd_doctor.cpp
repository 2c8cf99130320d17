#include <unistd.h>

#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  const std::vector<Finding> findings = examine_machine();
  if (arguments.json()) {
    print_json(to_json(findings));
  } else {
    print(describe(findings, is_fancy(STDOUT_FILENO, arguments.flag("no-color"))));
  }
  return all_fine(findings) ? 0 : 1;
}

}  // namespace

Command doctor_command() {
  return {.name = "doctor",
          .summary = "Show what this machine has for training, and how to get what is missing",
          .text = embedded("cmd_doctor.md"),
          .options = {format_option()},
          .examples = {{"adaptdl doctor", "Look at this machine."}},
          .run = run};
}

}  // namespace adaptdl::cli
