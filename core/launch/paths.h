#pragma once

// Where a run keeps the files that belong to its name.

#include <string>

namespace adaptdl::launch {

// For the run `name` (a file name: letters, digits, . _ -):
//   record          $XDG_STATE_HOME/adaptdl/runs/NAME.json (~/.local/state without the variable):
//                   what the run is and how it ended, for `ls` and `logs`
//   checkpoint_dir  $XDG_STATE_HOME/adaptdl/runs/NAME/checkpoints; callers may choose another
//   log_dir         $XDG_STATE_HOME/adaptdl/runs/NAME/logs, likewise
//   socket          $XDG_RUNTIME_DIR/adaptdl/runs/NAME.sock (/tmp/adaptdl-UID/runs without it)
struct RunPaths {
  std::string record, socket, checkpoint_dir, log_dir;
};

// Creates only the runtime folder (0700). Throws Error if that fails, UsageError for an invalid
// name.
RunPaths run_paths(const std::string& name);

std::string records_directory();
std::string sockets_directory();

// Throws UsageError, unless `name` is 1 to 63 letters, digits, or . _ - after a letter or digit.
void check_run_name(const std::string& name);

}  // namespace adaptdl::launch
