#pragma once

// The launcher of one run: one thread with one event loop. It waits for replicas, signals, requests
// and deadlines, asks decide() what to do, and does it.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/signals.h"
#include "core/launch/io/control.h"
#include "core/launch/io/run_report.h"
#include "core/launch/io/run_requests.h"
#include "core/launch/run/checkpoint_mirror.h"
#include "core/launch/run/conversation.h"
#include "core/launch/run/event_stream.h"
#include "core/launch/run/failures.h"
#include "core/launch/run/hand_over.h"
#include "core/launch/run/hung_replicas.h"
#include "core/launch/run/mirror_report.h"
#include "core/launch/run/rendezvous.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/run.h"
#include "core/launch/run/run_end.h"
#include "core/launch/run/run_hosts.h"
#include "core/launch/run/slow_links.h"
#include "core/launch/run/stragglers.h"
#include "core/launch/run/takeover.h"

namespace adaptdl::launch {

class Launcher : private RunControl {
 public:
  // `options` with all paths filled in. `mirror`: started, or null. Everything is borrowed. Throws
  // Error for a problem found before the start.
  Launcher(const RunOptions& options, RunReport& report, SignalCatcher& signals,
           CheckpointMirror* mirror);

  int run();  // the exit code

 private:
  // The event loop.
  void wait();
  bool take_signals();  // returns whether a child has changed

  // Decisions of the rendezvous, and carrying them out.
  void decide_all();
  void carry_out(const Decision& decision);
  void start_replicas(const Decision& decision);
  void dismiss(const Decision& decision);
  void hand_over(const Decision& decision);
  void give_up(const std::string& reason);

  // Changes of the target.
  void on_step(int64_t step);
  void host_slots_changed();
  AgentServer::Events host_events();
  bool waits_for_hosts();
  void stop(int signal);
  void begin_to_hand_over();
  bool hands_over();

  // Requests.
  nlohmann::json status() const override;
  std::string ending() const override;
  RunSlots slots() const override;
  int scale(const ScaleRequest& request) override;
  bool cancel(bool checkpoint) override;

  void end_main(const char* result, int exit);  // RunEnd::in_main()
  void record(const std::string& state);
  int finish();

  const RunOptions& options_;
  RunReport& report_;
  SignalCatcher& signals_;
  CheckpointMirror* const mirror_;
  MirrorReport mirror_report_;
  View view_;
  RendezvousOptions rendezvous_;
  EventStream stream_;
  ReplicaSet replicas_;
  RunHosts hosts_;
  Takeover takeover_;
  HandOver hand_over_;
  HungReplicas hung_;
  Stragglers stragglers_;
  SlowLinks slow_links_;
  Failures failures_;
  RunEnd end_;
  Conversation conversation_;
  ControlServer control_;
  std::optional<TimePoint> deadline_;    // of the newest decision
  std::string reason_;                   // of the newest decision
  std::optional<int> told_to_stop_;      // by that signal, before this launcher led
  std::optional<TimePoint> stopped_at_;  // the newest signal that skips no checkpoint came then
  size_t next_replicas_at_ = 0;
  int64_t fresh_at_ = 0;  // Joining
};

}  // namespace adaptdl::launch
