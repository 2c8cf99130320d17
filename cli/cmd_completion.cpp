#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  print(embedded("adaptdl." + *arguments.positional("SHELL")));
  return 0;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "Print the completion script of a shell",
          .text = embedded("cmd_completion.md"),
          .positionals = {{.name = "SHELL",
                           .kind = Kind::choice,
                           .doc = "bash, zsh or fish.",
                           .choices = {"bash", "zsh", "fish"}}},
          .examples = {{"source <(adaptdl completion bash)", "For this shell."},
                       {"adaptdl completion fish > ~/.config/fish/completions/adaptdl.fish",
                        "For all shells to come."}},
          .run = run};
}

}  // namespace adaptdl::cli
