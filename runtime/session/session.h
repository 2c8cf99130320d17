#pragma once

// A replica's membership in a run: its channel to the launcher and its generations.
//
// Invariants
//  1. current() changes only in answer() and await_next(), on the training thread.
//  2. A planned generation is connected in the background. No member trains in it before all
//     members of the old one have seen, in the same all-gather, that all are connected.
//  3. An immediate generation aborts the current one: running collectives throw comm::Aborted.
//  4. Generation numbers only increase; messages about older generations are ignored.
//
// Without a launcher there is one generation of one replica. Or replicas that ADAPTDL_* variables
// have told their places: their rank 0 answers on a channel as a launcher does
// (runtime/standalone). Nobody replaces one that dies. When rank 0 does, the next one saves what
// all have trained.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/signals.h"
#include "core/launch/io/protocol.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/standalone/meeting.h"
#include "runtime/standalone/supervisor.h"

namespace adaptdl {

// What the launcher asked all replicas to do together.
enum class StopMode { none, checkpoint, now };

class Session {
 public:
  // Takes the control channel from the environment and reads the launcher's welcome. Blocks SIGTERM
  // and handles it here: on SIGTERM this replica asks to leave. Call before other threads start.
  // The destructor makes signals do again what they did before; call it from the same thread.
  // Throws Error if the launcher speaks a newer protocol.
  // Without a launcher it meets the replicas that ADAPTDL_NUM_REPLICAS promises, as
  // standalone::meet(). SIGINT or SIGTERM to any of them ends all after a checkpoint; a second
  // SIGINT ends this one at once.
  Session();
  ~Session();

  bool has_launcher() const { return channel_ != nullptr && !by_hand_; }
  bool alone() const { return channel_ == nullptr; }  // the only replica, for good
  // Without a launcher: how many replicas the variables promise.
  int promised_replicas() const { return place_.replicas; }
  // welcome.settings; empty without a launcher.
  const nlohmann::json& settings() const { return settings_; }
  uint64_t member() const { return member_; }

  // The device of all later communicators, null without one, and what identifies it (gpu_id());
  // call before announce().
  void set_device(std::unique_ptr<comm::Device> device, const std::string& id);

  // The kind of accelerator of this replica; call before announce().
  void set_accelerator(const std::string& kind) { accelerators_ = {kind}; }

  // Tells the launcher that this replica is ready to train, and starts to listen. The hello message
  // includes `facts`.
  void announce(const nlohmann::json& facts);

  // Blocks until a generation newer than the current one is connected, and makes it current. False:
  // this replica is no longer a member and must leave.
  bool await_next();

  // Number of the planned generation that this replica is ready to switch to; 0 = none. It stays
  // ready until answer(). answer(true), for when all members offered the same number, makes it
  // current; answer() is false if this replica is not a member of it and must leave.
  uint64_t offer();
  bool answer(bool agreed);

  // Tells the launcher that this replica has the state of `step` and trains in the current
  // generation.
  void report_switched(int64_t step);

  // Null for a single replica, which needs no collectives.
  comm::Communicator* communicator() const { return current_.get(); }
  uint64_t generation() const { return generation_; }
  int rank() const { return rank_; }
  int replicas() const { return replicas_; }
  int nodes() const { return current_ ? current_->hosts() : 1; }  // that the replicas are on
  // The kinds that the replicas of the current generation train on, by rank; "": unknown.
  const std::vector<std::string>& accelerators() const { return accelerators_; }
  // Their checkpoint folders, by rank: the same number where they share one.
  const std::vector<int>& folders() const { return folders_; }
  // Compute threads of each replica in the current generation; 0 = not set.
  int threads() const { return threads_; }

  // Tells the launcher how many samples this replica computes at once from now on.
  void report_passes(int64_t samples);

  // Largest atomic batch, as the launcher knows of replicas killed for want of memory; 0 = none.
  int64_t atomic_limit() const { return atomic_limit_; }

  // While one exists, the training thread is in a part that all members should reach soon; the
  // launcher is told if it waits there for long. Elsewhere a long wait is normal: another member
  // may be reading or writing files.
  class Together {
   public:
    explicit Together(Session& session, bool together = true) : together_(session.together_) {
      together_ = together;
    }
    ~Together() { together_ = false; }
    Together(const Together&) = delete;

   private:
    std::atomic<bool>& together_;
  };

  // Tells the launcher that the current generation broke (a collective threw).
  void report_lost(const std::string& reason);

  // For good, after the last message: the other replicas may end, too. Rank 0 of replicas without a
  // launcher waits for them.
  void farewell();

  // Alone: from now on the first SIGINT or SIGTERM makes stop_requested() ask for a checkpoint; the
  // next one ends the process. After farewell() they do what they did before.
  void stop_on_signals();

  StopMode stop_requested() const { return stop_.load(std::memory_order_relaxed); }

  // Sends an event to the stream on rank 0; does nothing on other ranks. Any thread.
  void emit(const nlohmann::json& event);
  void send(const nlohmann::json& message);
  // Sends scheduling hints to the launcher, or to the supervisor that ADAPTDL_SUPERVISOR_URL names.
  bool takes_hints() const { return has_launcher() || hints_; }
  void send_hints(const nlohmann::json& hints);
  // While one exists, rank 0 writes what the run leaves: the launcher takes no length of it for a
  // hang.
  class Saving {
   public:
    explicit Saving(Session& session) : session_(session) { tell(true); }
    ~Saving() { tell(false); }
    Saving(const Saving&) = delete;

   private:
    void tell(bool saving) { session_.send({{"type", "saving"}, {"saving", saving}}); }
    Session& session_;
  };

 private:
  class FormerSignals;
  void join_launcher(Fd channel);
  void join_by_hand();
  void begin_control();
  void take_next(std::unique_lock<std::mutex>& lock);
  void control_loop();
  void take_signals(int fd);
  void lose_channel();
  void connect_loop();
  std::unique_ptr<comm::Communicator> connected(const comm::GroupOptions& options);
  void report_waiting();
  void on_message(const nlohmann::json& message);

  std::unique_ptr<FormerSignals> former_signals_;  // outlives what must not meet them

  bool by_hand_ = false;  // the channel leads to rank 0's coordinator
  standalone::Place place_;
  std::unique_ptr<standalone::Coordinator> coordinator_;
  std::unique_ptr<standalone::HintPoster> hints_;
  std::optional<SignalCatcher> catcher_;  // by hand
  int signals_ = 0;                       // by hand: how many SIGINT; of the control thread
  bool cut_off_ = false;                  // the channel has ended; of the control thread
  std::optional<uint64_t> heir_;   // by hand: who saves if rank 0 dies; of the control thread
  std::atomic<bool> left_{false};  // farewell()
  std::unique_ptr<launch::Channel> channel_;
  std::mutex send_mutex_;
  nlohmann::json settings_;
  uint64_t member_ = 0;
  std::unique_ptr<comm::Listener> listener_;
  nlohmann::json endpoint_;  // for the others
  // These outlive the communicators.
  std::unique_ptr<comm::Device> device_;
  std::optional<comm::nccl::Connector> nccl_;  // of the connector thread, once that has begun
  std::string told_no_nccl_;                   // the reason that the log has last; connector thread
  bool plain_links_ = false;                   // what hosts exchange is not encrypted
  int links_ = 1;                              // connections between two hosts for that

  // The current membership; used by the training thread only.
  std::unique_ptr<comm::Communicator> current_;
  uint64_t generation_ = 0;
  int rank_ = 0, replicas_ = 1, threads_ = 0;
  std::vector<std::string> accelerators_ = {""};  // before the first one: of this replica
  std::vector<int> folders_ = {0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<nlohmann::json> target_;              // newest generation message not yet taken
  std::unique_ptr<comm::Communicator> next_;          // connected, not yet current
  std::unique_ptr<comm::AbortSignal> connect_abort_;  // of the running connect()
  bool next_immediate_ = false, next_member_ = false;
  uint64_t next_generation_ = 0, newest_ = 0;
  int next_rank_ = 0, next_replicas_ = 0, next_threads_ = 0;
  std::vector<std::string> next_accelerators_;
  std::vector<int> next_folders_;
  int64_t atomic_limit_ = 0, next_atomic_limit_ = 0;
  int64_t told_samples_ = 0;                 // report_passes()
  comm::Communicator* abortable_ = nullptr;  // current_, for the control thread
  bool offered_ = false;                     // next_ is held for answer()
  bool trained_ = false;                     // has had the state of a generation
  bool quit_ = false;
  std::atomic<StopMode> stop_{StopMode::none};
  std::atomic<bool> together_{false};
  std::optional<TimePoint> told_waiting_;  // the wait reported to the launcher; control thread only
  Fd wake_;                                // eventfd: SIGTERM or the end
  std::thread control_, connector_;
};

}  // namespace adaptdl
