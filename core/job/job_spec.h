#pragma once

// A job as it is submitted: what to run, how many replicas, and what each needs. It comes from a
// job file (job_file.h) or a command line and is stored with the job. It does not say where and
// when the job runs. Plain data; the functions are pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/job/accelerators.h"
#include "core/job/replica_range.h"

namespace adaptdl {

// What one replica requests; empty if the user did not say.
struct ReplicaRequest {
  std::optional<int64_t> cpu_millicores;  // >= 1; 1000 is one core
  std::optional<int64_t> memory_bytes;    // >= 1
  std::optional<int64_t> gpus;            // 0 to 1024
  Accelerators accelerators;              // on which it may run

  bool operator==(const ReplicaRequest&) const = default;
};

inline constexpr double kMostGrace = 1e6;  // seconds
inline constexpr int kMostRetries = 1'000'000;

struct JobSpec {
  // archive: a train.pt (adaptdl-train(5)). executable: a program built against the runtime
  // library, rescaled live like an archive. command: anything else; a rescale restarts it, as
  // AdaptDL's Python programs expect.
  enum class Kind { archive, executable, command };

  // At most one of the two is given. A prefix gets 5 more characters, so the same file can be
  // submitted many times. If both are empty, the submitter chooses.
  std::string name;         // "" or valid_job_name()
  std::string name_prefix;  // "" or valid_job_name(prefix + 5 letters); may end with '-'

  Kind kind = Kind::command;
  // A path with a slash, and any path of an archive or executable, is relative to `directory`. Any
  // other word is a command in PATH.
  std::string program;
  std::vector<std::string> arguments;
  std::string directory;  // working directory relative to the project's folder; "" = that folder
  std::vector<std::string> settings;  // "KEY=VALUE", over those of the archive's adaptdl.yaml
  std::map<std::string, std::string> environment;  // added to what every replica gets

  int min_replicas = 0;                   // the job cannot train with fewer; 0 means the same as 1
  std::optional<int> max_replicas;        // >= max(1, min); none: the scheduler decides
  std::optional<int> requested_replicas;  // >= 1, within the two; for policies that do not adapt
  bool preemptible = true;                // false: it keeps its first allocation until it ends
  // Whether a command that reports no speed saves and exits with 143 on SIGTERM, so that the
  // scheduler may restart it with another number of replicas. None: its ends tell.
  std::optional<bool> restartable;
  ReplicaRequest request;  // of each replica

  // Paths of large data that is not copied with the project, each relative to the project's folder
  // or absolute.
  std::vector<std::string> data;
  std::optional<int64_t> checkpoint_size;  // bytes, >= 1, for its checkpoints; none: no limit
  std::string tensorboard;  // name of a TensorBoard instance that shows it; "" = none
  int retries = 3;          // restarts after failures without progress before the job fails
  double grace_s = 30;      // from SIGTERM to SIGKILL, s, 0 to kMostGrace

  bool operator==(const JobSpec&) const = default;
};

inline constexpr size_t kMaxJobName = 63;
inline constexpr size_t kJobNameSuffix = 5;  // characters added to a prefix

// 1 to 63 lower-case letters, digits, '-' and '.', with a letter or digit at the start, at the end
// and on both sides of each '.': also valid as a file name and as a name in Kubernetes.
bool valid_job_name(std::string_view name);
bool valid_job_name_prefix(std::string_view prefix);

// A valid prefix made from any text, for a job without a name: "My Model" -> "my-model-". Never
// empty, ends with '-'.
std::string job_name_prefix(std::string_view text);

std::string_view job_kind_name(JobSpec::Kind kind);  // "archive", "executable", "command"

// One record, "format": 1, with null for empty values.
Json to_json(const JobSpec& spec);

// Ignores unknown keys and fills in defaults for missing ones, so it can read files of older and
// newer versions. Throws Error "WHERE: ..." for a newer format and for values that JobSpec does not
// allow.
JobSpec job_spec_from_json(const Json& object, std::string_view where);

// A range of one number also sets requested_replicas.
void set_replicas(JobSpec& spec, const ReplicaRange& range);

// Throws Error "WHERE: FIELD ..." for values that the comments above do not allow. For specs that
// flags have changed.
void check_job_spec(const JobSpec& spec, std::string_view where);

}  // namespace adaptdl
