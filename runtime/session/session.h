#pragma once

// A replica's place in a run: its channel to the launcher, and the generations it is a member of.
//
// Invariants
//  1. current() changes only in answer() and await_next(), on the training thread.
//  2. A planned generation is connected beside training; nobody trains in it before every member of
//     the old one has seen, in the same all-gather, that all are connected.
//  3. An immediate generation aborts the current one: collectives under way throw comm::Aborted.
//  4. Numbers of generations only grow; a message about an older one is ignored.
//
// Without a launcher (the program was started by hand) there is one generation of one replica.

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

#include "core/launch/io/protocol.h"
#include "runtime/comm/connect.h"

namespace adaptdl {

// What the launcher asked all replicas to do together.
enum class StopMode { none, checkpoint, now };

class Session {
 public:
  // Takes the control channel from the environment and reads the launcher's welcome. Blocks SIGTERM
  // handling into this object: a SIGTERM makes this replica ask to leave. Call before other threads
  // are started. Throws Error when the launcher speaks a newer protocol.
  Session();
  ~Session();

  bool has_launcher() const { return channel_ != nullptr; }
  // welcome.settings; empty without a launcher.
  const nlohmann::json& settings() const { return settings_; }
  uint64_t member() const { return member_; }

  // What the communicators to come take as Memory::device; before announce().
  void set_device_memory(std::unique_ptr<comm::DeviceMemory> memory) {
    device_memory_ = std::move(memory);
  }

  // Tells the launcher that this replica is ready to train, and starts listening. `facts` are added
  // to the hello message.
  void announce(const nlohmann::json& facts);

  // Ends the wait for a first, or another, generation: blocks until one newer than the current is
  // connected, and makes it current. False: this replica is not a member any more and shall leave.
  bool await_next();

  // Number of a planned generation that this replica is ready to switch to; 0 = none. Holds it
  // ready until answer(): with `agreed`, when all members offered the same number, it becomes
  // current. answer() is false when this replica is not in it and shall leave.
  uint64_t offer();
  bool answer(bool agreed);

  // This replica has the state of the current generation, as of `step`, and trains in it.
  void report_switched(int64_t step);

  // Null for one replica alone (no collective is needed).
  comm::Communicator* communicator() const { return current_.get(); }
  uint64_t generation() const { return generation_; }
  int rank() const { return rank_; }
  int replicas() const { return replicas_; }
  int nodes() const { return 1; }
  // Threads that each replica may compute with in the current generation; 0 = not said.
  int threads() const { return threads_; }

  // While one exists, the training thread is where all members should soon be: the launcher is told
  // when it waits there for long. (It may wait elsewhere while one of them reads or writes files.)
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

  // The current generation broke (a collective threw): tells the launcher.
  void report_lost(const std::string& reason);

  StopMode stop_requested() const { return stop_.load(std::memory_order_relaxed); }

  // One event for the stream; from rank 0 (the others' are dropped here). Any thread.
  void emit(const nlohmann::json& event);
  void send(const nlohmann::json& message);

 private:
  void take_next(std::unique_lock<std::mutex>& lock);
  void control_loop();
  void connect_loop();
  void report_waiting();
  void on_message(const nlohmann::json& message);

  std::unique_ptr<launch::Channel> channel_;
  std::mutex send_mutex_;
  nlohmann::json settings_;
  uint64_t member_ = 0;
  std::unique_ptr<comm::Listener> listener_;
  std::unique_ptr<comm::DeviceMemory> device_memory_;  // outlives the communicators

  // Membership in force; the training thread's own.
  std::unique_ptr<comm::Communicator> current_;
  uint64_t generation_ = 0;
  int rank_ = 0, replicas_ = 1, threads_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<nlohmann::json> target_;              // newest generation message not yet taken
  std::unique_ptr<comm::Communicator> next_;          // connected, not yet current
  std::unique_ptr<comm::AbortSignal> connect_abort_;  // of the connect under way
  bool next_immediate_ = false, next_member_ = false;
  uint64_t next_generation_ = 0, newest_ = 0;
  int next_rank_ = 0, next_replicas_ = 0, next_threads_ = 0;
  comm::Communicator* abortable_ = nullptr;  // current_, for the control thread
  bool offered_ = false;                     // next_ is held for answer()
  bool trained_ = false;                     // has had the state of some generation
  bool quit_ = false;
  std::atomic<StopMode> stop_{StopMode::none};
  std::atomic<bool> together_{false};
  std::optional<TimePoint> told_waiting_;  // the wait that the launcher knows of; control thread's
  Fd wake_;                                // eventfd: SIGTERM or the end
  std::thread control_, connector_;
};

}  // namespace adaptdl
