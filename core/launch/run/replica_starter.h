#pragma once

// Starts the processes of replicas on this host.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/launch/io/log_writer.h"
#include "core/launch/run/replica.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

// What a replica is told of the run that it joins.
struct Joining {
  int replicas = 1;          // that the run is to have; >= 1
  int64_t atomic_limit = 0;  // Failures::atomic_limit()
  int64_t fresh_at = 0;      // when --fresh was said, in milliseconds since 1970; 0: it was not
};

class ReplicaStarter {
 public:
  // Throws Error if the program or the worker is unusable.
  ReplicaStarter(const RunOptions& options, LogWriter& logs);

  // Starts a replica and sends its welcome. Throws Error.
  std::unique_ptr<Replica> start(MemberId id, std::vector<int> slots, const Joining& joining);

  // The halves of start() when launcher and replica are on different hosts: what the launcher says
  // of the run, and a replica here with that. All else, also which program it is, this host
  // decides.
  nlohmann::json invitation(const Joining& joining) const;
  std::pair<Child, Channel> start_invited(MemberId id, int slot, const nlohmann::json& invitation);

  int threads_for(int replicas) const;  // for each of so many replicas; >= 1
  const std::string& run_id() const { return run_id_; }

 private:
  std::pair<Child, Channel> start_worker(MemberId id, const std::vector<int>& slots, int threads);
  nlohmann::json welcome(MemberId id, const Joining& joining) const;
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
