#pragma once

// Where a run keeps what belongs to its name rather than to its folders.

#include <string>

namespace adaptdl::launch {

// Of the run called `name` (a file name: letters, digits, . _ -):
//   record          $XDG_STATE_HOME/adaptdl/runs/NAME.json (~/.local/state without the variable):
//                   what it is and how it ended, for `ls` and `logs`
//   checkpoint_dir  $XDG_STATE_HOME/adaptdl/runs/NAME/checkpoints, unless the caller has a better
//   log_dir         $XDG_STATE_HOME/adaptdl/runs/NAME/logs, likewise
//   socket          $XDG_RUNTIME_DIR/adaptdl/runs/NAME.sock (/tmp/adaptdl-UID/runs without it)
struct RunPaths {
  std::string record, socket, checkpoint_dir, log_dir;
};

// Makes nothing but the runtime folder (0700). Throws Error if that cannot be had, UsageError for
// what is not a name.
RunPaths run_paths(const std::string& name);

std::string records_directory();
std::string sockets_directory();

// Throws UsageError, unless `name` is 1 to 63 letters, digits, or . _ - after a letter or digit.
void check_run_name(const std::string& name);

}  // namespace adaptdl::launch
