#pragma once

// The command table: everything the command line is, as data. Parsing (parse.h), help, man pages,
// completions and the environment variables of the flags all come from it; `adaptdl __dump-cli`
// prints it.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cli/frame/names.h"

namespace adaptdl::cli {

class Arguments;  // parse.h

// What a value is: how it is checked, and how a shell completes it.
enum class Kind {
  flag,        // no value
  text,        // anything
  integer,     // within [min, max]
  choice,      // one of `choices`; of one that ends with "=", whatever begins so
  suggested,   // anything; `choices` are only for completion
  file,        // a path of a file
  directory,   // a path of a folder
  job,         // the name of a job
  job_or_run,  // the name of a job or of a live run
  words,       // free text; every further argument belongs to it (positionals only)
};

struct Option {
  std::string_view name;  // long, without dashes
  char letter = 0;        // short, 0 = none
  Kind kind = Kind::flag;
  std::string_view value = {};     // name of the value in help, empty for a flag
  std::string_view fallback = {};  // value when neither given nor in the environment; empty = none
  std::string_view doc = {};       // one or two sentences; the default is appended by help
  std::vector<std::string_view> choices = {};
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  bool repeat = false;   // may be given several times; blank-separated in the environment
  bool variable = true;  // settable by environment
  std::string_view other_name = {};       // taken as well, and not shown: AdaptDL's
  std::string_view shared_variable = {};  // this variable instead of the command's own
};

struct Positional {
  std::string_view name;  // as in help: PROGRAM
  Kind kind = Kind::text;
  std::string_view doc = {};
  bool required = true;
  std::vector<std::string_view> choices = {};
  bool repeat = false;  // the last one: takes all that follow, Arguments::rest()
};

struct Example {
  std::string_view command;
  std::string_view doc;
};

struct Command {
  std::string_view name;       // one word, or two: a group's name and a verb
  std::string_view summary;    // one line, no full stop
  std::string_view text = {};  // cli/commands/<name>.md: for help and the man page
  std::vector<Option> options = {};
  std::vector<Positional> positionals = {};
  std::vector<Example> examples = {};
  bool hidden = false;
  bool arguments_after_dashes = false;  // what follows -- is kept apart: Arguments::rest()
  // The first word that is no flag ends the flags: it and all that follow are Arguments::rest().
  // Flags may have underscores for hyphens.
  bool program_follows = false;
  // What to do instead of a flag, without dashes, that another tool has; "" for any other.
  std::string_view (*instead_of)(std::string_view flag) = nullptr;
  int (*run)(const Arguments&) = nullptr;  // returns the exit code; throws Error
};

// A noun, whose commands are called "NOUN VERB" in the table. They share a man page.
struct CommandGroup {
  std::string_view name;
  std::string_view summary;
  std::string_view text = {};  // cli/commands/<name>.md
};

// Every command, in the order of the help; those of a group stand together. Built on first use;
// safe from many threads.
const std::vector<Command>& commands();
const std::vector<CommandGroup>& command_groups();

// Flags that every command takes, anywhere on the line.
const std::vector<Option>& global_options();

// Null when there is none of that name.
const Command* find_command(std::string_view name);
const CommandGroup* find_group(std::string_view name);
// The group that the command belongs to; null for most.
const CommandGroup* group_of(const Command& command);

// `-o text|json`, the same on every command that prints something to be read by programs.
Option format_option(std::string_view doc = "Output format.");

// `--set KEY=VALUE`, on every command that reads a training archive.
Option set_option();

// `--context NAME` and `--kubeconfig FILE`, on every command about a Kubernetes cluster itself.
Option context_option();
Option kubeconfig_option();

// `own`, then --cluster, --namespace, --context and --kubeconfig: on every command about jobs
// (cluster_choice.h). `letter`: of --namespace.
std::vector<Option> with_cluster(std::vector<Option> own, char letter = 'n');

// The option's environment variable: ADAPTDL_<COMMAND>_<FLAG>, ADAPTDL_<FLAG> for a global flag
// (empty `command`), unless it shares one with other commands.
std::string variable_name(std::string_view command, const Option& option);

// One or more per cli/commands/<name>.cpp.
Command run_command();
Command serve_command();
Command init_command();
Command inspect_command();
Command export_command();
Command submit_command();
Command ls_command();
Command top_command();
Command describe_command();
Command explain_command();
Command logs_command();
Command events_command();
Command wait_command();
Command scale_command();
Command suspend_command();
Command resume_command();
Command cancel_command();
Command delete_command();
Command cp_command();
Command exec_command();
Command tensorboard_create_command();
Command tensorboard_delete_command();
Command tensorboard_list_command();
Command tensorboard_proxy_command();
Command operator_command();
Command install_command();
Command upgrade_command();
Command uninstall_command();
Command policy_show_command();
Command policy_set_command();
Command cluster_list_command();
Command cluster_show_command();
Command cluster_use_command();
Command image_build_command();
Command image_push_command();
Command simulate_command();
Command profile_command();
Command doctor_command();
Command completion_command();
Command licenses_command();
Command torchrun_command();
Command dump_cli_command();
Command complete_command();
Command probe_command();
Command runner_command();
Command storage_command();

}  // namespace adaptdl::cli
