#pragma once

// A replica as its launcher knows it, on this machine or on another host.

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/process.h"
#include "core/launch/io/protocol.h"
#include "core/launch/run/membership.h"

namespace adaptdl::launch {

// One thread. The destructor kills the process if it still runs.
class ReplicaProcess {
 public:
  virtual ~ReplicaProcess() = default;

  virtual pid_t pid() const = 0;               // on its host; 0 while unknown
  virtual bool here() const { return false; }  // whether pid() is one of this host
  virtual void kill() = 0;                     // SIGKILL

  // How the process ended, once that is known.
  virtual std::optional<ExitStatus> poll() = 0;

  // The oldest change since the last call: it was stopped (true) or continued (false).
  virtual std::optional<bool> stop_change() = 0;

  // A descriptor for poll(2), readable once the process has ended. -1: it has none of its own.
  virtual int descriptor() const = 0;

  // Of a process on another host that has ended: whether the system there killed it because memory
  // ran out.
  virtual bool memory_ran_out() const { return false; }

  // Why its end is unknown; "" if it is known.
  virtual std::string lost() const { return ""; }
};

class LocalProcess : public ReplicaProcess {
 public:
  explicit LocalProcess(Child child) : child_(std::move(child)) {}

  pid_t pid() const override { return child_.pid(); }
  bool here() const override { return true; }
  void kill() override;
  std::optional<ExitStatus> poll() override { return child_.poll(); }
  std::optional<bool> stop_change() override;
  int descriptor() const override { return child_.pidfd(); }

 private:
  Child child_;
};

struct Replica {
  MemberId id = 0;
  std::unique_ptr<ReplicaProcess> process;
  Channel channel;
  std::vector<int> slots;   // its own ones of the run's
  nlohmann::json endpoint;  // from hello
  std::string accelerator;  // from hello: what it trains on; "": unknown
  bool open = true;         // the channel has not ended
  bool said_hello = false, said_bye = false;
  bool in_main = false;       // training is over, and the program's own main() goes on
  bool led = false;           // ... and it was rank 0: it decides how the run ends
  uint64_t waits_in = 0;      // the generation in whose step it waits for others; 0: does not wait
  int64_t samples = 0;        // that it computes at once; 0: has not said
  int64_t atomic_limit = 0;   // of them, as it was told; 0: none
  bool failed = false;        // died by itself while the run continued
  bool expected_end = false;  // killed or sent away by the launcher: its end is no failure
  std::string fatal;          // why it cannot train, in its words
  MemberState state_at_death = MemberState::starting;
  // The channel ended; the process should follow, unless in_main.
  std::optional<TimePoint> ended_at;
};

// As process 1, which inherits the orphans of its replicas: reaps ended processes other than
// `ours`. Otherwise does nothing.
void reap_strangers(const std::function<bool(pid_t)>& ours);

}  // namespace adaptdl::launch
