#pragma once

// The replicas of a run whose processes exist, here and on other hosts: starts them, passes
// messages, notices their ends. Part of an event loop: never blocks.

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <string>
#include <vector>

#include "core/base/process.h"
#include "core/launch/hosts/agent_server.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/replica.h"
#include "core/launch/run/replica_starter.h"

namespace adaptdl::launch {

// Called about events of replicas.
class ReplicaListener {
 public:
  virtual ~ReplicaListener() = default;

  // An exception ends the replica: it is not ours, or sends nonsense.
  virtual void on_message(Replica& replica, const nlohmann::json& message) = 0;
  // Its channel has ended, after all its messages. Once.
  virtual void on_closed(Replica& replica) = 0;
  // Its process has ended, after on_closed().
  virtual void on_exit(Replica& replica, const ExitStatus& status) = 0;
  // Its process was stopped or continued.
  virtual void on_stop(Replica& replica, bool stopped) = 0;
};

// One thread.
class ReplicaSet {
 public:
  // `options` and `report` are borrowed. Listens for agents if the run uses other hosts. Throws
  // Error for a problem found before the start.
  ReplicaSet(const RunOptions& options, RunReport& report, AgentServer::Events hosts);

  bool empty() const { return replicas_.empty(); }
  Replica* find(MemberId id);
  const std::map<MemberId, std::unique_ptr<Replica>>& all() const { return replicas_; }
  std::vector<int> held_slots() const;  // sorted
  size_t in_main() const;               // how many are (Replica::in_main)
  // The name of the host that a replica is on; "" if the run has only this one.
  std::string host_of(MemberId id) const;
  bool same_host(int slot, int other) const { return !agents_ || agents_->same_host(slot, other); }
  // The same number for all replicas on a host; none if the run has only this one.
  std::optional<int> host_number_of(MemberId id) const;

  const std::string& run_id() const { return starter_.run_id(); }
  int threads_for(int replicas) const { return starter_.threads_for(replicas); }

  MemberId new_id() { return next_id_++; }
  // One that another launcher has started, which numbered others as well.
  void adopt(std::unique_ptr<Replica> replica);
  void used(MemberId id) { next_id_ = std::max(next_id_, id + 1); }
  // Throws Error.
  void start(MemberId id, const std::vector<int>& slots, const Joining& joining);
  // `atomic_limit`: Failures::atomic_limit().
  void announce(const Generation& generation, const std::vector<MemberId>& leavers,
                int64_t atomic_limit);
  // Asks it to write a checkpoint together with the others and to end with `exit`.
  void ask_to_stop(Replica& replica, int exit);
  void kill(Replica& replica);
  void kill_all();

  // Its last log lines, once it has closed its output; waits only briefly.
  std::vector<std::string> last_lines(MemberId id);

  // As AgentServer has them; with other hosts only.
  AgentServer& agents() { return *agents_; }
  int hosts() const;            // that belong to the run now, this one included
  uint16_t hosts_port() const;  // where it listens for others; 0: it does not

  // Tells the other hosts how the run ended.
  void end_hosts(int exit);

  // Descriptors to poll, and until when.
  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;

  // Call after the poll: first serve_hosts(), then each of the others. `children`: SIGCHLD came.
  void serve_hosts();
  void take_stops(ReplicaListener& listener, bool children);
  void take_messages(ReplicaListener& listener);
  // Returns whether any replica has ended.
  bool take_ends(ReplicaListener& listener, bool children);

 private:
  bool drain(Replica& replica, ReplicaListener& listener);  // false: the channel has ended
  void close(Replica& replica, ReplicaListener& listener);

  const RunOptions& options_;
  RunReport& report_;
  LogWriter logs_;
  ReplicaStarter starter_;
  std::unique_ptr<AgentServer> agents_;  // none: all replicas are on this host
  std::map<MemberId, std::unique_ptr<Replica>> replicas_;
  MemberId next_id_ = 0;
};

// Cuts a sentence from another program to a readable length.
std::string bounded(std::string text);

}  // namespace adaptdl::launch
