// `adaptdl __storage`: the tools of `adaptdl cp` in a pod whose image may have neither sleep nor
// tar. Operators' pods also use it to wait (manifests/operator.yaml).

#include "core/client/kubernetes/storage.h"

#include <thread>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/client/job_tar.h"
#include "core/oci/untar.h"

namespace adaptdl::cli {
namespace {

int wait(const std::string& seconds) {
  const auto number = try_parse<int>(seconds);
  if (!number || *number < 0) throw UsageError(seconds + ": not a number of seconds.");
  std::this_thread::sleep_for(Seconds(*number));
  return 0;
}

int pack(const std::string& folder, const std::vector<std::string>& members) {
  const CopyResult result = pack_members(folder, members, [](std::string_view bytes) {
    write_all(STDOUT_FILENO, bytes, "standard output");
  });
  for (const std::string& skipped : result.skipped) talk(skipped);
  for (const std::string& changed : result.changed) talk(kChangedMark + changed);
  return 0;
}

int unpack(const std::string& folder) {
  const auto source = oci::read_descriptor(STDIN_FILENO, "standard input");
  // Read everything the sender sends, even after a failure.
  const auto drain = [&] {
    while (!source().empty()) continue;
  };
  try {
    oci::untar(source, folder);
  } catch (const Error&) {
    drain();
    throw;
  }
  drain();
  return 0;
}

int run_storage(const Arguments& arguments) {
  std::vector<std::string> words = arguments.rest();
  if (words.size() < 2) throw UsageError("give an action and its argument.");
  const std::string action = words[0], first = words[1];
  words.erase(words.begin(), words.begin() + 2);
  if (action == "wait") return wait(first);
  if (action == "is-folder") return is_directory(first) ? 0 : 1;
  if (action == "pack") return pack(first, words);
  if (action == "unpack") return unpack(first);
  throw UsageError(action + ": unknown action; use wait, is-folder, pack or unpack.");
}

}  // namespace

Command storage_command() {
  return {.name = "__storage",
          .summary = "Access a job's storage, for `adaptdl cp`",
          .hidden = true,
          .arguments_after_dashes = true,
          .run = run_storage};
}

}  // namespace adaptdl::cli
