#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/client/job_copy.h"

namespace adaptdl::cli {
namespace {

struct Place {
  std::string job;  // "": a local path
  std::string path;
};

// "JOB:/path"; a local path with a colon is written as ./a:b.
Place parse_place(const std::string& text) {
  const size_t colon = text.find(':'), slash = text.find('/');
  if (colon == std::string::npos || slash < colon) return {"", text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

CopyResult copy(JobTransfer& files, const Place& from, const Place& to) {
  if (from.job.empty() == to.job.empty()) {
    throw UsageError("give one JOB:/path and one local path.");
  }
  if (!from.job.empty()) return files.copy_from(from.job, from.path, to.path);
  return files.copy_to(from.path, to.job, to.path);
}

int run_cp(const Arguments& arguments) {
  const CopyResult result =
      copy(*open_cluster(arguments).transfer, parse_place(*arguments.positional("FROM")),
           parse_place(*arguments.positional("TO")));
  for (const std::string& sentence : result.skipped) talk("adaptdl: skipped " + sentence);
  for (const std::string& sentence : result.changed) talk("adaptdl: " + sentence);
  if (arguments.json()) {
    print_json({{"files", result.files},
                {"bytes", result.bytes},
                {"skipped", result.skipped},
                {"changed", result.changed}});
  } else if (!arguments.quiet()) {
    talk(fmt::format("{} file{}, {}", result.files, result.files == 1 ? "" : "s",
                     format_bytes(result.bytes)));
  }
  return 0;
}

}  // namespace

Command cp_command() {
  return {
      .name = "cp",
      .summary = "Copy files from or to a job",
      .text = embedded("cp.md"),
      .options = with_cluster({format_option()}),
      .positionals = {{.name = "FROM", .kind = Kind::file, .doc = "JOB:/path, or a local path."},
                      {.name = "TO", .kind = Kind::file, .doc = "A local path, or JOB:/path."}},
      .examples = {{"adaptdl cp digits-x7k2p:/output/model.pt .", "Get the trained model."},
                   {"adaptdl cp words.txt digits-x7k2p:/share/",
                    "Add a file to its share folder."}},
      .run = run_cp};
}

}  // namespace adaptdl::cli
