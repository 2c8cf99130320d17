#pragma once

// Runs one training job on this machine: starts the replicas, keeps the requested number of them,
// decides on their membership (rendezvous.h), and emits the stream of events.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/hosts/agent_link.h"
#include "core/launch/hosts/roster.h"
#include "core/launch/io/output_queue.h"
#include "core/launch/run/checkpoint_mirror.h"
#include "core/launch/run/replica_bounds.h"
#include "core/net/addresses.h"

namespace adaptdl::launch {

struct RunOptions {
  std::string name;                    // identity of the run
  std::string program;                 // train.pt, or an executable of the runtime library
  bool own_main = false;               // the latter: its main() may go on after the training
  std::vector<std::string> arguments;  // passed to an executable
  std::vector<std::string> settings;   // --set key=value, for the program's settings
  // Training archives: every setting in force as text, to report what changed since the last run.
  std::map<std::string, std::string> effective_settings;
  std::string checkpoint_dir;  // used by this run only
  // Where the newest checkpoint is kept, too. Not with `hosts` and not with `evaluate`.
  std::optional<MirrorOptions> mirror;
  std::string output_dir;  // folder for model.pt and best.pt
  std::string log_dir;     // replica-<member>.log
  ReplicaBounds replicas;
  // Rescale to that many replicas at the step; in order of step. Like a scale request, the number
  // may lie outside of `replicas`, which then grow to include it.
  std::vector<std::pair<int64_t, int>> replicas_at;
  // Breakdowns in a row without a finished step in between. Deaths of replicas that were all
  // running when the first of them died count as one. Newcomers that fail in a row have the same
  // limit: then the other replicas continue without more, or, if none trains, the run fails.
  int max_restarts = 3;
  // Replicas beside those that train, which have loaded the program and wait to take the place of
  // one that dies. With `slots` or `gpus` each has its own. Not with `hosts`.
  int spares = 0;
  bool replace_stragglers = false;  // stragglers.h
  bool fresh = false;               // ignore (and remove) the files of an earlier run
  // One validation pass instead of training: of the newest checkpoint or, with checkpoint_dir "",
  // of the weights that the settings name. Leaves no files, except logs: in a given log_dir, or in
  // a temporary folder if it fails.
  bool evaluate = false;
  int threads = 0;  // per replica; 0 = cores / replicas, at least 1
  int gpus = 0;     // GPUs to divide among the replicas, one each; 0 = CPU
  // The cores or GPUs of the replicas, `slots_per_replica` distinct ones for each. A replica is
  // bound to its cores (by their numbers), and has a thread for each. With `gpus`, slots are
  // indices of gpus(). None: replicas share all cores, or divide all of the GPUs.
  std::vector<int> slots;
  bool bound = true;  // false, without `gpus`: slots only limit replicas, whatever cores there are
  int slots_per_replica = 1;
  std::map<int, std::string> accelerators;  // kinds of slots, as the scheduler calls them
  int64_t log_bytes_max = 10 << 20;         // per replica log file, one rotation kept
  std::string control_socket;  // Unix socket for scale/cancel/ls; mode 0600; "": run_paths()
  std::string record_file;     // the run's record for `ls` and `logs`; "": run_paths()
  // The worker's executable: a path (ADAPTDL_WORKER, or an executable program), or empty for the
  // embedded image.
  std::string worker_path;
  std::string_view worker_image;  // ELF bytes, borrowed for the whole run
  std::string libtorch_dir;       // its lib/ goes into the worker's LD_LIBRARY_PATH; "" = as built
  // For agents of other hosts (agent.h): then this host has slots 0 and on, and the run wants a
  // replica for each slot that there is.
  std::optional<HostsOptions> hosts;
  // With `hosts`: this launcher takes the place of one that is lost, whose hosts these are. Their
  // replicas go on.
  std::optional<Roster> succeeds;
  // With `hosts`: those that an earlier launcher in this one's place was with, and that may have
  // gone on (may_have_gone_on()). It trains once it has them again, or knows that they are gone.
  std::optional<Roster> comes_again;
  bool plain_links = false;  // replicas of several hosts do not encrypt what they exchange
  int links = 1;             // between two hosts for that (GroupOptions, runtime/comm/connect.h)
  bool nccl = true;          // on GPUs, where it can be used
  Reach reach;               // how those of other hosts reach this host's
  bool echo_logs = false;    // also write the replicas' output to standard error
  // Called on the launcher's thread with what the job reports for its scheduler (core/job/hints.h).
  // Must not block.
  std::function<void(const nlohmann::json& hints)> on_hints;
  double start_timeout_s = 120;   // for a replica, until it says hello
  double connect_timeout_s = 30;  // for a newcomer, until it has its links
  double exit_settle_s = 0.5;     // for a death, until it is known how the process ended
  // A replica for which the others have waited this long in a step, and 20 times the longest step,
  // is killed and replaced; if the whole run stands still, all are. Both wait longer where the
  // run's history tells so (hung_replicas.h, still_watch.h). 0 = never.
  double hang_timeout_s = 300;
  // For the end, from the signal or, if later, from when the checkpoint is written; and for a
  // leaving replica.
  double grace_s = 30;
  std::string system_root = "/";  // where /proc and /sys are read for OomWatch
};

// This launcher was cut off, its replicas are ended, and another one leads the run now.
struct LedElsewhere : Error {
  using Error::Error;
};

// Runs to the end. Returns the process's exit code: 0 finished (also when it had finished before),
// 1 failed, 130/143 stopped by SIGINT/SIGTERM after a checkpoint (129 by SIGHUP), a replica's code
// from `fatal`, or what the main() of an executable returned on rank 0 after the training. Call
// from the main thread, which must live as long as the run (replicas are tied to it). Handles
// SIGINT, SIGTERM, SIGHUP (unless ignored), SIGPIPE and SIGCHLD during the call. A second SIGINT,
// or SIGTERM a second later, skips the checkpoint. As process 1 it reaps every child. Returns when
// all sinks have had all events; a signal at that time makes it return earlier, and the process
// should then end. Throws Error for a problem found before the start (a live run of the same name,
// an unreadable program), and LedElsewhere.
int run(const RunOptions& options, const std::vector<EventSink>& sinks, const Talk& talk);

// The signals that a run catches: SIGINT, SIGTERM, SIGCHLD, and SIGHUP unless it is ignored
// (nohup).
std::vector<int> caught_signals();

// Whether that signal, after the first one at that time, is no further wish: timeout(1) sends
// SIGTERM to the process and to the process group.
bool is_repeated(int signal, TimePoint first_at);

}  // namespace adaptdl::launch
