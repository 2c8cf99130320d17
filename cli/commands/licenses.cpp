#include "cli/licenses.h"

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int run_licenses(const Arguments&) {
  print(kLicenses);
  return 0;
}

}  // namespace

Command licenses_command() {
  return {.name = "licenses",
          .summary = "Print the licences of everything in this binary",
          .text = embedded("licenses.md"),
          .run = run_licenses};
}

}  // namespace adaptdl::cli
