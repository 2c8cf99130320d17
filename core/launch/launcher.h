#pragma once

// The launcher of one run: one thread, one loop, which waits for replicas, signals, requests and
// deadlines, has decide() say what to do, and does it.

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/job/hints.h"
#include "core/launch/agents.h"
#include "core/launch/control.h"
#include "core/launch/hang_watch.h"
#include "core/launch/log_writer.h"
#include "core/launch/oom.h"
#include "core/launch/output.h"
#include "core/launch/rendezvous.h"
#include "core/launch/replica.h"
#include "core/launch/run.h"
#include "core/launch/run_folder.h"
#include "core/launch/signals.h"
#include "core/launch/stream.h"

namespace adaptdl::launch {

class Launcher {
 public:
  // `options` with all paths filled in. Everything is borrowed. Throws Error for what is wrong
  // before the start.
  Launcher(const RunOptions& options, RunFolder& folder, Output& output, SignalCatcher& signals);

  int run();  // the exit code

 private:
  // How the run ends, once that is known.
  struct Ending {
    std::string result;  // finished, stopped, cancelled, failed
    int exit = 0;
    std::string reason;       // for people; "" when there is nothing to explain
    TimePoint kill_at;        // who has not ended by then is killed
    bool repair = false;      // members that lose others meanwhile are brought together again
    bool checkpoint = false;  // one was asked for
    bool last_words = false;  // of the replica that failed last: they belong to the reason
  };

  // launcher.cpp: the loop
  void wait();
  void take_signals();
  void take_messages();
  bool take_ends();  // whether any has ended
  void decide_all();
  void note_generation();
  void check_deadlines();
  void note_stopped(Replica& replica);
  Replica* find(MemberId id);

  // launcher_hang.cpp: who holds up the others
  bool is_entered(const Generation* generation);
  void find_hung();

  // launcher_messages.cpp: what replicas say, and how they end
  bool drain(Replica& replica);  // false: the channel has ended
  void on_message(Replica& replica, const nlohmann::json& message);
  void on_fatal(Replica& replica, const nlohmann::json& message);
  void on_hints(const nlohmann::json& message);
  void on_death(Replica& replica);
  void on_exit(Replica& replica, const ExitStatus& status);
  void report_failure(MemberId id, const std::string& reason, const ExitStatus* status,
                      MemberState before);
  std::string what_next(MemberState before) const;
  void on_step(int64_t step);

  // launcher_actions.cpp: what the launcher does
  void carry_out(const Decision& decision);
  void start_replicas(const Decision& decision);
  void announce(const Decision& decision);
  void end(Ending ending);
  void kill(Replica& replica);
  void kill_all();
  void set_target(int target, const std::string& cause);
  int trained() const;                  // living members with state
  std::vector<int> held_slots() const;  // by living replicas, sorted
  void host_joined(int slot, const std::string& host);
  void host_left(int slot, const std::string& host, const std::string& why);
  void emit_start();
  int finish();

  // launcher_requests.cpp: the control socket
  nlohmann::json on_request(const nlohmann::json& request);
  nlohmann::json scale(const nlohmann::json& request);
  nlohmann::json status() const;
  nlohmann::json hints() const;
  void record(const std::string& state);

  const RunOptions& options_;
  RunFolder& folder_;
  Output& output_;
  SignalCatcher& signals_;
  LogWriter logs_;
  ReplicaStarter starter_;
  std::unique_ptr<Agents> agents_;  // none: all replicas are on this host
  ControlServer control_;
  EventStream stream_;
  RendezvousOptions rendezvous_;
  View view_;
  HangWatch watch_;
  OomWatch oom_;
  bool told_of_hang_ = false;
  std::optional<SchedulingHints> hints_;                   // newest of rank 0's
  std::map<MemberId, std::unique_ptr<Replica>> replicas_;  // whose processes exist
  MemberId next_id_ = 0;
  uint64_t noted_generation_ = 0;
  size_t noted_members_ = 0;
  size_t next_replicas_at_ = 0;
  std::optional<Ending> ending_;
  std::optional<TimePoint> deadline_;  // of the newest decision
  std::string reason_;                 // of the newest decision
  std::string state_, recorded_problem_;
  std::string started_;                                // RFC 3339
  nlohmann::json summary_ = nlohmann::json::object();  // from rank 0's bye
  bool checkpointed_ = false;                          // rank 0's bye, of the very end
  std::string last_failure_;                           // who failed last, and of what
  std::vector<std::string> last_words_;                // log lines of who failed last
  bool memory_ran_out_ = false;                        // the newest failure's cause
  bool child_signal_ = false;
};

}  // namespace adaptdl::launch
