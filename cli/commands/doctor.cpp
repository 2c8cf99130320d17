#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/doctor_checks.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int run_doctor(const Arguments& arguments) {
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
          .summary = "Check this machine for training, and show how to get what is missing",
          .text = embedded("doctor.md"),
          .options = {format_option()},
          .examples = {{"adaptdl doctor", "Check this machine."}},
          .run = run_doctor};
}

}  // namespace adaptdl::cli
