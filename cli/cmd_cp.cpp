#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/job_copy.h"
#include "cli/jobs.h"
#include "cli/local_jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/files.h"
#include "core/base/number.h"

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

// "JOB:/" alone: each of its folders, but not what is ours in it.
CopyResult copy_all(const std::string& folder, const std::string& to) {
  CopyResult all;
  make_directories(to);
  for (const std::string& name : kJobFolders) {
    const std::string from = join_path(folder, name);
    if (!path_exists(from)) continue;
    CopyResult part = copy_below(from, folder, to, "");
    all.files += part.files;
    all.bytes += part.bytes;
    all.skipped.insert(all.skipped.end(), part.skipped.begin(), part.skipped.end());
  }
  return all;
}

CopyResult copy(const Place& from, const Place& to) {
  if (from.job.empty() == to.job.empty()) {
    throw UsageError("one of the two is JOB:/path, the other a path here.");
  }
  const std::string& name = from.job.empty() ? to.job : from.job;
  find_job(local::open_store().get(), name);
  const std::string folder = local::local_paths().job(name);
  if (!from.job.empty()) {
    const std::string source = path_in_job(folder, from.path);
    return source == folder ? copy_all(folder, to.path) : copy_below(source, folder, to.path, "");
  }
  const std::string target = path_in_job(folder, to.path);
  if (target == folder) {
    fail("{}:{}: name one of its folders: {}", name, to.path, fmt::join(kJobFolders, ", "));
  }
  // Links may lead anywhere in the folder that is copied.
  const std::string root = is_directory(from.path) ? from.path : parent_directory(from.path);
  return copy_below(from.path, root, target, folder);
}

int run(const Arguments& arguments) {
  require_local_cluster(arguments, "this command knows only the local one yet");
  const CopyResult result =
      copy(parse_place(*arguments.positional("FROM")), parse_place(*arguments.positional("TO")));
  for (const std::string& sentence : result.skipped) talk("adaptdl: skipped " + sentence);
  if (arguments.json()) {
    print_json({{"files", result.files}, {"bytes", result.bytes}, {"skipped", result.skipped}});
  } else if (!arguments.quiet()) {
    talk(fmt::format("{} file{}, {}", result.files, result.files == 1 ? "" : "s",
                     format_bytes(result.bytes)));
  }
  return 0;
}

}  // namespace

Command cp_command() {
  return {.name = "cp",
          .summary = "Copy files from a job, or to it",
          .text = embedded("cmd_cp.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "FROM", .kind = Kind::file, .doc = "JOB:/path, or a path here."},
                          {.name = "TO", .kind = Kind::file, .doc = "The other of the two."}},
          .examples = {{"adaptdl cp digits-x7k2p:/output/model.pt .", "Get what it trained."},
                       {"adaptdl cp words.txt digits-x7k2p:/share/", "Give it a file."}},
          .run = run};
}

}  // namespace adaptdl::cli
