#pragma once

// One replica's process, as the launcher holds it.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/log_writer.h"
#include "core/launch/protocol.h"
#include "core/launch/rendezvous.h"
#include "core/launch/replica_process.h"
#include "core/launch/run.h"

namespace adaptdl::launch {

struct Replica {
  MemberId id = 0;
  std::unique_ptr<ReplicaProcess> process;
  Channel channel;
  std::vector<int> slots;   // of the run's, that are its own
  nlohmann::json endpoint;  // from hello
  bool open = true;         // the channel has not ended
  bool said_hello = false, said_bye = false;
  uint64_t waits_in = 0;      // the generation in whose step it waits for others; 0: does not wait
  bool failed = false;        // died on its own account while the run went on
  bool expected_end = false;  // killed or sent away by the launcher: its end is no failure
  std::string fatal;          // why it cannot train, as it said
  MemberState state_at_death = MemberState::starting;
  std::optional<TimePoint> ended_at;  // the channel ended; the process should follow
};

// Starts replicas of one run.
class ReplicaStarter {
 public:
  // Throws Error when the program or the worker cannot be had.
  ReplicaStarter(const RunOptions& options, LogWriter& logs);

  // Starts one and sends its welcome. `threads`: what it may use. Throws Error.
  std::unique_ptr<Replica> start(MemberId id, std::vector<int> slots, int threads, bool fresh);

  // The two halves of start(), where launcher and replica are on different hosts: adapt() makes a
  // welcome that came from the launcher one of this host.
  std::pair<Child, Channel> start_worker(MemberId id, const std::vector<int>& slots, int threads);
  nlohmann::json welcome(MemberId id, int threads, bool fresh) const;
  void adapt(nlohmann::json& welcome, const std::string& secret, int threads) const;

  int threads_for(int replicas) const;  // each of so many may use; >= 1
  const std::string& run_id() const { return run_id_; }

 private:
  std::vector<std::string> environment(const std::vector<int>& slots, int threads) const;
  const char* device() const;

  const RunOptions& options_;
  LogWriter& logs_;
  std::unique_ptr<ExecutableImage> image_;
  std::vector<std::string> gpus_;
  int cores_ = 1;
  std::string run_id_, secret_;
  Fd null_;
};

}  // namespace adaptdl::launch
