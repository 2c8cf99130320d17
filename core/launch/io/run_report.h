#pragma once

// What a run reports, the same for every launcher: the events of adaptdl-events(5), the status for
// its control socket (client.h), and its record, run.json. A replica's events arrive complete
// (runtime/session); the launcher adds the time, and the fields that only it knows.

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/nvml.h"
#include "core/base/process.h"
#include "core/launch/io/output_queue.h"
#include "core/launch/io/protocol.h"
#include "core/launch/io/run_progress.h"

namespace adaptdl::launch {

// Versions of the events ("format" of `start`) and of the record.
inline constexpr int kEventFormat = 1;
inline constexpr int kRecordFormat = 1;

// Facts that stay the same while the run lives.
struct RunIdentity {
  std::string name, program;
  std::vector<std::string> arguments;
  struct Settings {  // of a program of the runtime library
    std::vector<std::string> given;
    std::map<std::string, std::string> effective;
  };
  std::optional<Settings> settings;
  std::string program_version;  // of an executable, which changes when it is built anew; or ""
  std::string checkpoint_dir, log_dir;
  std::optional<std::string> output_dir;
  std::string control_socket;
};

struct StartFacts {
  std::optional<std::string> run_id;
  int replicas = 1, min = 1, max = 1;
  int threads = 1, gpus = 0;
  bool evaluate = false;
};

struct GenerationFacts {
  int64_t number = 0;
  std::vector<MemberId> members;  // in order of rank
  int from = 0;                   // replicas before
  std::string cause;
  bool immediate = false;
  std::string accelerator;  // kind that they train on; "": unknown
  std::optional<int64_t> step;
};

struct FailureFacts {
  MemberId member = 0;
  std::string reason;
  std::optional<ExitStatus> status;
  std::string next;
  std::vector<std::string> log;
};

struct HangFacts {
  std::vector<MemberId> members;  // those that are killed
  double seconds = 0;             // without progress
  std::optional<int64_t> step;    // the newest finished one
  std::string file;               // what they were doing; "" if it could not be written
};

// An attempt to send a checkpoint to the run's mirror.
struct MirrorFacts {
  int64_t step = 0;
  std::string place;  // s3://BUCKET/PREFIX
  uint64_t bytes = 0;
  double seconds = 0;
  std::string error;  // "": it is there
};

// A replica that is slower than the others (straggler_watch.h).
struct StragglerFacts {
  std::string state;  // slow, changed, over, gone, replacing, replaced, kept
  MemberId member = 0;
  std::string host;            // its name, if the run has several; else ""
  double sample_s = 0;         // seconds that it computes for a sample
  double others_sample_s = 0;  // median of the others
  double factor = 0;           // of these two
  double waited = 0;           // share of the time that the others waited for it
  // Replaced: by which replica, and samples per second of the run, before and after.
  std::optional<MemberId> by;
  std::optional<double> samples_per_s_before, samples_per_s;
  std::string reason;  // why it is kept
};

// The network of a host, or between two, that is slower than the others (link_watch.h).
struct SlowLinkFacts {
  std::string state;             // slow, changed, over, gone
  MemberId member = 0;           // the lowest rank on the host
  std::string host;              // its name
  std::optional<MemberId> peer;  // likewise at the other end; none: all connections of the host
  std::string peer_host;
  double bytes_per_s = 0;
  double others_bytes_per_s = 0;  // of the others, in the median
  double factor = 0;              // of these two
  double waited = 0;  // share of the time for which it was busy, less that of the others
};

// What the driver says of a replica's GPU.
struct GpuFacts {
  MemberId member = 0;
  std::string host;  // its name, if the run has several; else ""
  Gpu gpu;
  GpuLoad load;
};

// Of a command run, for its record.
struct CommandFacts {
  int64_t generation = -1;
  size_t replicas = 0;
  bool checkpoint = false;
  bool restartable = false;              // it has exited with 143 when it was asked to stop
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
    std::string state;  // starting, ready, spare, active, leaving, stopped, gone, finished
  };
  std::string reason;
  int64_t generation = 0;
  size_t replicas = 0, spares = 0;  // spares: that are ready
  std::vector<Replica> members;
  std::vector<StragglerFacts> stragglers;
  std::vector<SlowLinkFacts> slow_links;
  int target = 1, min = 1, max = 1;
  bool finished = false;  // its training is: the program's own main() goes on
  std::optional<std::vector<int>> slots;
  std::optional<bool> restartable;  // of a command, as in CommandFacts
  nlohmann::json hints, epoch, loss;
  std::optional<int64_t> step;
};

// One thread.
class RunReport {
 public:
  // Writes the record; `last`: it is the final one. The user is told once what it throws: a full
  // disk does not end a run.
  using Keep = std::function<void(const nlohmann::json& record, bool last)>;

  RunReport(RunIdentity identity, OutputQueue& output, Keep keep);

  // Emit events, in the order of the calls.
  void start(const StartFacts& facts);
  void generation(const GenerationFacts& facts);
  void failure(const FailureFacts& facts);
  void hang(const HangFacts& facts);
  void mirror(const MirrorFacts& facts);
  void straggler(const StragglerFacts& facts);
  void slow_link(const SlowLinkFacts& facts);
  void gpu(const GpuFacts& facts);
  void from_replica(nlohmann::json event);
  // A rescale that a replica has measured; the launcher adds why it happened.
  void rescale(nlohmann::json event, const std::string& cause, int from, size_t to);

  // The last event, after the last record.
  void end(const EndFacts& facts);
  // The only event of a run whose record says that it has finished.
  void already_finished(const nlohmann::json& record);

  nlohmann::json status(const StatusFacts& facts) const;

  // Sets the run's state, and writes it into the record.
  void record(const std::string& state, const RecordFacts& facts);
  const std::string& state() const { return state_; }
  const nlohmann::json& recorded() const { return record_; }  // at first only what the run is

  void talk(std::string line) { output_.talk(std::move(line)); }
  // Whether the user has got every event and sentence so far, or does so until the deadline.
  bool all_passed_on(TimePoint deadline) const { return output_.drain(deadline); }
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
  RunProgress progress_;
  std::string state_, told_problem_;
};

}  // namespace adaptdl::launch
