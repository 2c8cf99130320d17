#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/licenses.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments&) {
  print(kLicenses);
  return 0;
}

}  // namespace

Command licenses_command() {
  return {.name = "licenses",
          .summary = "Print the licences of what is in this binary",
          .text = embedded("cmd_licenses.md"),
          .run = run};
}

}  // namespace adaptdl::cli
