#pragma once

// Runs one training job on this machine: starts the replicas, keeps as many of them as wanted,
// decides who is a member (rendezvous.h), and hands out the stream of events.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/launch/hosts/agent_link.h"
#include "core/launch/io/output_queue.h"
#include "core/launch/run/replica_bounds.h"

namespace adaptdl::launch {

struct RunOptions {
  std::string name;                    // identity of the run
  std::string program;                 // train.pt, or an executable of the runtime library
  std::vector<std::string> arguments;  // passed to an executable
  std::vector<std::string> settings;   // --set key=value, for the program's settings
  // Of a training archive: every setting in force as text, to tell what changed since the last run.
  std::map<std::string, std::string> effective_settings;
  std::string checkpoint_dir;  // of this run alone
  std::string output_dir;      // where model.pt goes
  std::string log_dir;         // replica-<member>.log
  ReplicaBounds replicas;
  // At step, go to that many; in order of step. As a scale request, it may lie outside of
  // `replicas`, which then grow to hold it.
  std::vector<std::pair<int64_t, int>> replicas_at;
  // Breakdowns in a row without a finished step between; deaths of replicas that were all running
  // when the first of them died are one. Newcomers that fail in a row have the same limit, after
  // which those who train go on without more (or, if nobody trains, the run fails).
  int max_restarts = 3;
  bool fresh = false;  // ignore (and remove) what an earlier run left
  int threads = 0;     // per replica; 0 = cores / replicas, at least 1
  int gpus = 0;        // GPUs that replicas share out, one each; 0 = CPU
  // What the replicas may run on, each on `slots_per_replica` of its own: cores by their numbers,
  // to which it is bound and for each of which it has a thread; with `gpus`, indices of gpus().
  // None: no core is anybody's own, and all of the GPUs are shared out.
  std::vector<int> slots;
  bool bound = true;  // false, without `gpus`: slots only count replicas, whatever cores there are
  int slots_per_replica = 1;
  int64_t log_bytes_max = 10 << 20;  // per replica log file, one rotation kept
  std::string control_socket;        // Unix socket for scale/cancel/ls; mode 0600; "": run_paths()
  std::string record_file;           // what `ls` and `logs` know of the run; "": run_paths()
  // What starts a worker: a path (ADAPTDL_WORKER, or an executable program), or empty for the
  // embedded image.
  std::string worker_path;
  std::string_view worker_image;  // ELF bytes, borrowed for the whole run
  std::string libtorch_dir;       // its lib/ goes into the worker's LD_LIBRARY_PATH; "" = as built
  // With agents of other hosts (agent.h): then this host has one slot, 0, and one more replica is
  // wanted for each agent that joins.
  std::optional<HostsOptions> hosts;
  bool echo_logs = false;  // what replicas print goes to standard error, too
  // Hears what the job knows of itself (core/job/hints.h), on the launcher's thread: must not
  // block.
  std::function<void(const nlohmann::json& hints)> on_hints;
  double start_timeout_s = 120;   // for a replica, until it says hello
  double connect_timeout_s = 30;  // for a newcomer, until it has its links
  // A replica for which the others have waited that long in a step, and 20 times as long as the
  // longest step took, is killed and replaced; 0 = never.
  double hang_timeout_s = 300;
  double grace_s = 30;  // for a checkpoint at the end, and for a replica that leaves
};

// Runs to the end. Returns the process's exit code: 0 finished (also when it had finished before),
// 1 failed, 130/143 stopped by SIGINT/SIGTERM after a checkpoint (129 by SIGHUP); or what a replica
// gave with `fatal`. Call from the main thread, which must live as long as the run (replicas are
// tied to it); installs handlers for SIGINT, SIGTERM, SIGHUP (unless ignored), SIGPIPE and SIGCHLD
// for the time of the call. A second SIGINT or SIGTERM skips the checkpoint. As process 1 it reaps
// every child. Returns only after all sinks have had all events; a signal at that time makes it
// return earlier, and the process should then end. Throws Error for what is wrong before the start
// (a live run of the same name, an unreadable program).
int run(const RunOptions& options, const std::vector<EventSink>& sinks, const Talk& talk);

// What a run catches: SIGINT, SIGTERM, SIGCHLD, and SIGHUP unless it is ignored (nohup).
std::vector<int> caught_signals();

}  // namespace adaptdl::launch
