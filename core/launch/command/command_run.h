#pragma once

// Runs a program that does not know adaptdl as AdaptDL's scheduler and torchrun would: each replica
// is a process with the environment of both (AdaptDL 0.2.11's contract, torch.distributed.run's). A
// rescale sends SIGTERM, expects exit code 143, and starts the program again from its own
// checkpoint. command_state.h decides; this acts.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/io/replica_console.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

struct ReplicasFile;  // leftovers.h

struct CommandOptions {
  std::string name;
  std::string job_namespace = "default";
  std::string job_id() const { return job_namespace + "/" + name; }  // ADAPTDL_JOB_ID
  std::string
      program;  // with a slash: a path, relative to `directory`; otherwise a command in PATH
  std::vector<std::string> arguments;
  std::string directory;                           // working directory
  std::map<std::string, std::string> environment;  // added to ours; the variables that we set win
  ReplicaBounds replicas;
  // As in RunOptions; no slots then. The generation's rank 0 is on the launcher's host, which has
  // this name or address for itself; agents use the one at which they reach the launcher.
  std::optional<HostsOptions> hosts;
  std::string address = "127.0.0.1";
  std::vector<int> slots;  // as in RunOptions
  bool bound = true;       // as in RunOptions
  int slots_per_replica = 1;
  std::map<int, std::string> accelerators;  // as in RunOptions
  int gpus = 0;                             // as in RunOptions; the slots are indices of them
  int threads = 0;                          // per replica; 0 = its cores, or its share of all cores
  std::string supervisor_url;   // http://HOST:PORT/PATH, without a slash at the end; "" = none
  std::string tensorboard_dir;  // "" = none
  int max_failures = 3;         // in a row, of generations without progress
  bool failures_in_row = true;  // false: max_failures are those of the whole run
  std::string run_id;           // TORCHELASTIC_RUN_ID; "": name
  // torchrun's --virtual-local-rank: LOCAL_RANK is 0, and each replica sees one GPU, that of its
  // rank in CUDA_VISIBLE_DEVICES of `environment` or, without it, of the machine. Requires: no
  // gpus.
  bool virtual_local_rank = false;
  // ROLE_NAME, unless `environment` has it.
  std::string role = "default";
  int torch_port = 0;         // MASTER_PORT; 0: another free one for each generation
  bool program_exit = false;  // a failed run returns the program's exit code instead of 1
  std::optional<ConsoleOptions> console;  // shows the replicas' output; none: only logs
  double grace_s = 30;                    // from SIGTERM to SIGKILL
  bool fresh = false;                     // checkpoint_dir, of this run alone, is emptied first
  int64_t log_bytes_max = 10 << 20;
  // Folders; created if missing.
  std::string checkpoint_dir, share_dir, log_dir;
  std::string control_socket;
  std::string record_file;    // {format, name, program, arguments, state, reason, exit_code, ...}
  std::string replicas_file;  // the living processes, and the newest generation number
  std::shared_ptr<ReplicasFile> claimed;  // replicas_file, if the caller has claimed it
  bool throws_disk_full = false;          // at the first start, which the caller tries again
};

// The number of the newest folder checkpoint-N in this folder; -1: none.
int64_t newest_checkpoint(const std::string& folder);

// Removes what `fresh` says. Requires: no live run has the folder. Throws Error.
void start_fresh(const CommandOptions& options);

// Runs to the end. Exit code: 0 finished, 1 failed, 143 stopped by SIGTERM or cancelled, 130 by
// SIGINT (131 by SIGQUIT, 129 by SIGHUP). Signals, threads and sinks as in run(). First kills the
// replicas that an earlier launcher of this folder left. Events: start, generation, failure and end
// of adaptdl-events(5); steps are unknown. Throws Error for a problem found before the start.
//
// Control socket requests are those of client.h. In the status, "generation" is the replicas'
// ADAPTDL_NUM_RESTARTS, "replicas" counts the living ones, "members" are numbered by rank, and
// step, epoch, loss and hints are null.
int run_command(const CommandOptions& options, const std::vector<EventSink>& sinks,
                const Talk& talk);

}  // namespace adaptdl::launch
