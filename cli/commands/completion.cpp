#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int run_completion(const Arguments& arguments) {
  print(embedded("adaptdl." + *arguments.positional("SHELL")));
  return 0;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "Print the completion script for a shell",
          .text = embedded("completion.md"),
          .positionals = {{.name = "SHELL",
                           .kind = Kind::choice,
                           .doc = "bash, zsh or fish.",
                           .choices = {"bash", "zsh", "fish"}}},
          .examples = {{"source <(adaptdl completion bash)", "For this shell."},
                       {"adaptdl completion fish > ~/.config/fish/completions/adaptdl.fish",
                        "For all later shells."}},
          .run = run_completion};
}

}  // namespace adaptdl::cli
