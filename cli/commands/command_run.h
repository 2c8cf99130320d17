#pragma once

// A command as a data-parallel job: `adaptdl run -- CMD` and `adaptdl torchrun`.

#include <string>
#include <vector>

#include "cli/frame/parse.h"
#include "core/launch/command/command_run.h"

namespace adaptdl::cli {

// Throws UsageError if flags of `adaptdl run` were given that only training archives have
// (`command`), or that only commands have.
void check_run_flags(const Arguments& arguments, bool command);

// What `adaptdl run [FLAGS] -- WORDS` says. Throws UsageError or Error.
launch::CommandOptions command_options(const Arguments& arguments);

// The run's name if the user gives none: that of the script or module, else of the program.
// "python3 -u src/train.py" is train. Always valid.
std::string command_name(const std::vector<std::string>& words);

// The text with what a run's name may not have replaced; "command" if nothing is left.
std::string valid_run_name(const std::string& text);

// Completes the options with the folders in `base`, the run's files, and the variables of our
// environment that win over what we set. `log_dir`, `checkpoint_dir`: instead of those in `base`,
// unless "". Other folders that our environment names for checkpoints, shared files and charts come
// before those in `base`, too. Requires: name; tensorboard_dir if a flag names it.
void set_command_folders(launch::CommandOptions& options, const std::string& base,
                         const std::string& log_dir, const std::string& checkpoint_dir);

// What is shown: `redirects` and `tee` as torchrun's flags; "": not given. `only`: ranks such as
// "0,2"; "": all. `prefix_all`: lines have a prefix unless there is one replica.
launch::ConsoleOptions console_options(const std::string& redirects, const std::string& tee,
                                       const std::string& only, bool prefix_all, bool json);

// Runs it, and prints what happens. The exit code: that of the program that failed first, 127 if it
// is not found, 126 if it cannot be executed, else as run_command(). `hosts`: the flags may put it
// on several hosts; else they are not looked at.
int run_as_command(const Arguments& arguments, launch::CommandOptions options, bool hosts = true);

}  // namespace adaptdl::cli
