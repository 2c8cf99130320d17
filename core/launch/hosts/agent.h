#pragma once

// A host's part of a run whose launcher is on another host: finds the launcher, offers it this
// host's slots, and starts, watches and ends the replicas that the launcher requests.

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/process.h"
#include "core/launch/command/command_run.h"
#include "core/launch/hosts/agent_link.h"
#include "core/launch/hosts/roster.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

// With these words an agent tells that a launcher has taken it, and how the run has ended.
inline constexpr const char* kJoinedRun = "joined the run at";
inline constexpr const char* kRunHasFailed = "the run has failed";

struct LauncherAddress {
  std::string host;
  uint16_t port = 0;

  auto operator<=>(const LauncherAddress&) const = default;
};

// There is no launcher any more: the run has ended, with this exit code.
struct RunEnded : Error {
  explicit RunEnded(int code) : Error("the run has ended"), exit(code) {}
  int exit;
};

// Nobody leads the run any more, nor is about to: this host may begin to.
struct NobodyLeads : Error {
  using Error::Error;
};

struct AgentOptions {
  // The program and how it is started here; the run's name; the secret in `hosts`; the log folder.
  RunOptions run;
  // Instead of a program. Then of `run` only name, checkpoint_dir, hosts, reach and grace_s count.
  std::optional<CommandOptions> command;
  std::string id;  // unlike that of every other agent of the run; a host that comes again keeps it
  std::string host;  // for people
  // The hosts may lack a common file system: say so if the checkpoint folder is not the launcher's.
  bool check_folder = false;
  int leash = -1;      // a descriptor: when it ends, this host is to stop, as at SIGTERM; -1: none
  std::string advice;  // for somebody whose launcher has another key; continues a sentence
  // Returns the launcher's address. Called repeatedly while there is no connection: an Error that
  // it throws is reported, and the agent tries again, unless it is RunEnded or NobodyLeads. Should
  // return within a few seconds.
  std::function<LauncherAddress()> find_launcher;
  // Gives up (1) after so long without a launcher; nothing: never, somebody may start it again.
  std::optional<Seconds> patience;
  // Once this host was in the run, it ends with this code if its replicas cannot go on and no
  // launcher takes it again; nothing: it looks for one.
  std::optional<int> lost_exit;
  // Where a launcher on this host would listen, should it have to lead, and what starts it in place
  // of the one that `roster` is of. None: this host never leads.
  std::shared_ptr<Fd> listener;
  // Instead of a listener that is open: its port, which is opened when the launcher is there, and
  // may be on this host and have it; then this host never leads.
  uint16_t leads_at = 0;
  std::function<Child(int listener, const Roster& roster)> lead;
};

// Runs until it hears how the run ended (returns its exit code) or that it will not have
// this host (1), or until SIGTERM or SIGINT (128 + its number). At such a signal the replicas here
// first leave the others, for which they have run.grace_s; a second signal kills them, but for a
// SIGTERM within a second. If the launcher disappears, the hosts agree on another one (roster.h),
// with which the replicas go on; where they cannot, the agent ends its replicas and looks for the
// launcher again. Call from the main thread; signals, processes and process 1 as in run(). Throws
// Error for a problem found before the start, and NobodyLeads if find_launcher does while there are
// no replicas.
int run_agent(const AgentOptions& options, const Talk& talk);

}  // namespace adaptdl::launch
