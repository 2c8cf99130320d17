#pragma once

// `adaptdl run --nnodes`: one run on several hosts, where the same command is typed on each.

#include <optional>

#include "cli/frame/parse.h"
#include "core/launch/hosts/agent.h"
#include "core/launch/run/run.h"

namespace adaptdl::cli {

struct HostOfRun {
  bool leads = false;  // this process is the launcher; otherwise an agent
  launch::LauncherAddress meeting_point;
  std::string key_file;
};

// This host's part, and sets `options.hosts`; nothing for a run on one machine. Throws UsageError
// or Error.
std::optional<HostOfRun> host_of_run(const Arguments& arguments, launch::RunOptions& options,
                                     const launch::Talk& talk);

// Runs the agent to its end; returns the exit code.
int run_host(const HostOfRun& host, const launch::RunOptions& options, const launch::Talk& talk);

}  // namespace adaptdl::cli
