#pragma once

// What a run tells of itself, for every launcher in one place: the events of adaptdl-events(5), the
// status that its control socket answers (client.h), and its record, run.json. Events that a
// replica sends come complete (runtime/session) and get only the time, and what the launcher alone
// knows of them.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/process.h"
#include "core/launch/io/output_queue.h"
#include "core/launch/io/protocol.h"

namespace adaptdl::launch {

// The form of the events, as `start` says it in "format", and that of the record.
inline constexpr int kEventFormat = 1;
inline constexpr int kRecordFormat = 1;

// What stays the same for as long as the run lives.
struct RunIdentity {
  std::string name, program;
  std::vector<std::string> arguments;
  struct Settings {  // of a program of the runtime library
    std::vector<std::string> given;
    std::map<std::string, std::string> effective;
  };
  std::optional<Settings> settings;
  std::string checkpoint_dir, log_dir;
  std::optional<std::string> output_dir;
  std::string control_socket;
};

struct StartFacts {
  std::optional<std::string> run_id;
  int replicas = 1, min = 1, max = 1;
  int threads = 1, gpus = 0;
};

struct GenerationFacts {
  int64_t number = 0;
  std::vector<MemberId> members;  // in order of rank
  int from = 0;                   // replicas before
  std::string cause;
  bool immediate = false;
  std::optional<int64_t> step;
};

struct FailureFacts {
  MemberId member = 0;
  std::string reason;
  std::optional<ExitStatus> status;
  std::string next;
  std::vector<std::string> log;
};

// Of a command run, for its record.
struct CommandFacts {
  int64_t generation = -1;
  size_t replicas = 0;
  bool checkpoint = false;
  std::optional<int> program_exit_code;  // of the replica that failed last
};

struct RecordFacts {
  std::optional<int64_t> step;
  std::optional<CommandFacts> command;
};

struct EndFacts {
  std::string result;  // finished, stopped, cancelled, failed
  int exit = 0;
  std::string reason;  // for people; "" when there is nothing to explain
  std::string cause;   // of a failed run, for programs: ReplicaFailed, OutOfMemory, CannotStart
  bool checkpoint = false;
  std::optional<int64_t> steps;
  int rescales = 0;
  std::optional<double> lost_s;
  nlohmann::json from_replicas = nlohmann::json::object();  // what rank 0 said of the end
  RecordFacts record = {};
};

struct StatusFacts {
  struct Replica {
    MemberId member = 0;
    pid_t pid = 0;
    std::string state;  // starting, ready, active, leaving, stopped, gone
  };
  std::string reason;
  int64_t generation = 0;
  size_t replicas = 0;
  std::vector<Replica> members;
  int target = 1, min = 1, max = 1;
  std::optional<std::vector<int>> slots;
  nlohmann::json hints, epoch, loss;
  std::optional<int64_t> step;
};

// One thread.
class RunReport {
 public:
  // Writes the record; `last`: nothing follows it. What it throws is told to the user once: a full
  // disk does not end a run.
  using Keep = std::function<void(const nlohmann::json& record, bool last)>;

  RunReport(RunIdentity identity, OutputQueue& output, Keep keep);

  // Events, in the order of the calls.
  void start(const StartFacts& facts);
  void generation(const GenerationFacts& facts);
  void failure(const FailureFacts& facts);
  void from_replica(nlohmann::json event);
  // One that a replica has measured; the launcher knows why it was.
  void rescale(nlohmann::json event, const std::string& cause, int from, size_t to);

  // The last event, after the last record.
  void end(const EndFacts& facts);
  // Instead of all others: there is nothing to do, since the run of this record has finished.
  void already_finished(const nlohmann::json& record);

  nlohmann::json status(const StatusFacts& facts) const;

  // The state of the run from now on, into the record.
  void record(const std::string& state, const RecordFacts& facts);
  const std::string& state() const { return state_; }
  const nlohmann::json& recorded() const { return record_; }  // at first what the run is

  void talk(std::string line) { output_.talk(std::move(line)); }
  double elapsed_s() const { return seconds_since(begun_); }

 private:
  void emit(nlohmann::json event);
  void write(bool last);
  void take(const std::string& state, const RecordFacts& facts);

  const RunIdentity identity_;
  OutputQueue& output_;
  const Keep keep_;
  const TimePoint begun_;
  const std::string started_;  // RFC 3339
  nlohmann::json record_;
  std::string state_, told_problem_;
};

}  // namespace adaptdl::launch
