#pragma once

// The launcher's side of replicas on other hosts. Agents (agent.h) connect; each offers some slots,
// and starts the requested replicas on them. The launcher treats such a replica like any other: the
// agent forwards its messages into a channel of its own. Part of an event loop: never blocks.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <poll.h>
#include <string>
#include <vector>

#include "core/launch/hosts/agent_link.h"
#include "core/launch/hosts/quorum.h"
#include "core/launch/hosts/roster.h"
#include "core/launch/hosts/roster_file.h"
#include "core/launch/run/replica.h"

namespace adaptdl::launch {

// One thread.
class AgentServer {
 public:
  using Slots = std::vector<int>;  // the numbers after this host's own, none of them twice

  // Called from serve().
  struct Events {
    std::function<void(const Slots& slots, const std::string& host)> joined;
    // The agent was told to stop, or is lost; `why` ends a sentence, such as "was told to stop".
    std::function<void(const Slots& slots, const std::string& host, const std::string& why)> left;
    // Of a launcher that takes over from another one: a replica that the last one had started, and
    // what it was told of generations (ReplicaMemory::generations). None after lead().
    std::function<void(std::unique_ptr<Replica> replica, const nlohmann::json& generations)> kept;
    // A witness, which has no slots, has joined or left, as `news` says. May be none.
    std::function<void(const std::string& host, const std::string& news)> witness;
  };

  // Starts to listen. `run`: the run's name, which agents must know. `before`: the roster of the
  // launcher that this one takes over from; else only its run_id counts. Throws Error.
  AgentServer(HostsOptions options, const std::string& run, Roster before, Events events);
  ~AgentServer();

  uint16_t port() const;

  // Add the descriptors to poll; then call serve() when one is ready, or at deadline().
  void add_waits(std::vector<pollfd>& waits) const;
  TimePoint deadline() const;
  void serve();

  // Of a slot that the run has: the name of its host; and whether another one is there, too.
  std::string host_of(int slot) const;
  bool same_host(int slot, int other) const;
  int host_number_of(int slot) const;  // 0: this host
  // A number for the checkpoint folder of that host; 0: it is the launcher's. Hosts that share only
  // with each other have different numbers.
  int folder_of(int slot) const;
  // That belong to the run now, this one included if replicas run on it, without witnesses.
  int hosts() const;
  struct Host {
    std::string name;
    Slots slots;
  };
  std::vector<Host> all_hosts() const;  // those, this one first

  // Whether those hosts may train: else those that were lost may do so without this launcher.
  bool may_train() const { return !overtaken_ && (!quorum_.guards() || quorum_.holds(bound())); }
  // They may as soon as all that are here have the newest roster.
  bool may_train_soon() const {
    return !overtaken_ && (!quorum_.guards() || quorum_.holds(here()));
  }
  // It has taken over, and not all hosts know it yet: those that do not may have another launcher.
  bool takes_over() const { return quorum_.succeeds(); }
  // This launcher is a new process in place of one that was with these hosts: they may have gone on
  // (may_have_gone_on()). Call it before serve().
  void come_again(const Roster& before) { quorum_.come_again(before); }
  bool comes_again() const { return quorum_.comes_again(); }
  // Whether one of the lost hosts leads the others now; asks one of them at each call, and gives
  // them up where this launcher comes again and nothing of the run is left on any of them. Takes a
  // few seconds at most.
  bool led_elsewhere();
  Quorum::Hosts lost() const { return quorum_.lost(here()); }
  // Another launcher has led lost hosts since, as one that is here has told. This one is to leave
  // the run to it; its roster was kept.
  bool overtaken() const { return overtaken_; }
  // Else they may from now on, whatever the lost ones do.
  void give_up_lost();

  // Whether a host that is to stay could lead in place of this one, by the folder that all share.
  bool others_may_lead() const;

  // Taking over: the newest roster that a host here has had from the last launcher, and how many of
  // a roster's hosts have told all that they kept, those that are to stop among them, or have
  // ended. Until lead() they keep that roster.
  const Roster& before() const { return before_; }
  // That with the newest generation of which an earlier process on one of the hosts knew; number 0:
  // none that is of this run.
  const Roster& remembered() const { return remembered_; }
  int hosts_of(const Roster& roster) const;
  bool anyone_joins() const;  // has connected, be it a stranger, and not told yet what it knows
  // The step of the newest checkpoint that these hosts have; -1: none.
  int64_t newest_checkpoint() const;
  // Up to where the launcher has passed on its events, or the last one had.
  const PassedOn& told() const { return told_; }
  void lead(Roster::Announced announced);
  // Before the replicas hear of it.
  void announced(Roster::Announced announced);
  // Closes all connections, without a word: the replicas there wait for another launcher.
  void leave_to_others();

  // Has the agent of that slot start a replica; `invitation`: ReplicaStarter::invitation(). Throws
  // Error if the agent has disconnected.
  std::unique_ptr<Replica> start(MemberId id, int slot, nlohmann::json invitation);

  // All events that replicas have said, and the launcher could read, have been passed on, up to
  // there: tells the hosts, which keep them until then for another launcher.
  void events_passed_on(const PassedOn& told);
  bool keep_events() const;  // whether hosts keep some, as far as is known here
  // events_passed_on() and then leave_to_others(), when they have read it, or do not for a while.
  void hand_over(const PassedOn& told);

  // Tells all agents how the run ended; waits briefly until they have read it.
  void end(int exit);

 private:
  struct Agent;
  struct Worker;
  class Process;

  std::shared_ptr<Agent> agent_of(int slot) const;  // null: of this host
  void accept_all();
  void let_go();
  // Why it must be dropped; "" if it is fine.
  std::string serve(const std::shared_ptr<Agent>& from);
  void on_message(const std::shared_ptr<Agent>& from, const nlohmann::json& message);
  void on_join(Agent& agent, const nlohmann::json& message);
  void on_keeps(const std::shared_ptr<Agent>& agent, const nlohmann::json& message);
  void on_knows(Agent& agent, const nlohmann::json& message);
  void tell_roster();
  void remember() const;
  bool is_newer(const Roster& theirs) const;
  int own_host() const { return options_.slots > 0 ? 1 : 0; }
  int members() const;          // hosts() and witnesses
  bool all_share() const;       // the checkpoint folder; witnesses aside
  Quorum::Hosts here() const;   // those of the agents that belong to the run, as far as they tell
  Quorum::Hosts bound() const;  // those of them that cannot have gone over to another launcher
  std::unique_ptr<Replica> replica_on(const std::shared_ptr<Agent>& agent, MemberId id, int slot);
  std::string refusal(const nlohmann::json& join, bool witness) const;  // "": none
  void drop(Agent& agent, const std::string& why);
  void tell_left(const Agent& agent, const std::string& why) const;

  const HostsOptions options_;
  const TlsKey key_;
  const Events events_;
  Fd listener_;
  TimePoint beat_at_ = TimePoint::min();
  std::vector<std::shared_ptr<Agent>> agents_;
  int next_slot_;
  Roster before_, remembered_, roster_;
  bool leads_, roster_changed_ = false;
  bool rosters_told_;  // hosts have one, by which they may go on without this launcher
  Quorum quorum_;
  PassedOn told_;
  size_t asked_ = 0;  // calls of led_elsewhere()
  GoneHosts gone_;
  bool overtaken_ = false;
};

}  // namespace adaptdl::launch
