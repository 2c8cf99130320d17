#pragma once

// Runs a program that knows nothing of us as AdaptDL's scheduler would: each replica a process with
// AdaptDL's environment (job/AdaptDL 0.2.11's contract), rescaled by SIGTERM, exit 143 and another
// start from the program's own checkpoint. command_state.h decides; this acts.

#include <map>
#include <string>
#include <vector>

#include "core/launch/run/run.h"

namespace adaptdl::launch {

struct CommandOptions {
  std::string name;
  std::string job_namespace = "default";
  std::string program;  // with a slash: a path, relative to `directory`; else a command in PATH
  std::vector<std::string> arguments;
  std::string directory;                           // to run in
  std::map<std::string, std::string> environment;  // added to ours; what we set ourselves wins
  ReplicaBounds replicas;
  std::vector<int> slots;  // as in RunOptions
  bool bound = true;       // likewise
  int slots_per_replica = 1;
  int gpus = 0;                 // as in RunOptions; of which the slots are some
  int threads = 0;              // per replica; 0 = its cores, or its share of all
  std::string supervisor_url;   // http://HOST:PORT/PATH, without a slash at the end; "" = none
  std::string tensorboard_dir;  // "" = none
  int max_failures = 3;         // in a row, of generations that got nowhere
  double grace_s = 30;          // from SIGTERM to SIGKILL
  int64_t log_bytes_max = 10 << 20;
  // Where things are; made if missing.
  std::string checkpoint_dir, share_dir, log_dir;
  std::string control_socket;
  std::string record_file;    // {format, name, program, arguments, state, reason, exit_code, ...}
  std::string replicas_file;  // which processes live, and the newest number of a generation
};

// Runs to the end. Exit code: 0 finished, 1 failed, 143 stopped by SIGTERM or cancelled, 130 by
// SIGINT. Signals, threads and sinks as for run(). Replicas that an earlier launcher of this folder
// left are killed first. Events: start, generation, failure and end of adaptdl-events(5); nothing
// is known of steps. Throws Error for what is wrong before the start.
//
// Requests of the control socket are those of client.h; in the status "generation" is what the
// replicas have as ADAPTDL_NUM_RESTARTS, "replicas" counts those that live, "members" are numbered
// by rank, and step, epoch, loss and hints are null.
int run_command(const CommandOptions& options, const std::vector<EventSink>& sinks,
                const Talk& talk);

}  // namespace adaptdl::launch
