#include "cli/licenses.h"

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int run_licenses(const Arguments& arguments) {
  print(arguments.flag("sbom") ? kSbom : kLicenses);
  return 0;
}

}  // namespace

Command licenses_command() {
  return {.name = "licenses",
          .summary = "Print the licences of everything in this binary",
          .text = embedded("licenses.md"),
          .options = {{.name = "sbom",
                       .doc = "Print a software bill of materials as CycloneDX 1.5 JSON."}},
          .examples = {{"adaptdl licenses --sbom > adaptdl.cdx.json",
                        "For a scanner of known vulnerabilities."}},
          .run = run_licenses};
}

}  // namespace adaptdl::cli
