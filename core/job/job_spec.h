#pragma once

// A job as it is submitted: what to run, how many replicas, and what each needs. It comes from a
// job file (job_file.h) or from a command line, is stored with the job, and says nothing of where
// and when it runs. Plain data; the functions are pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/json.h"
#include "core/job/replica_range.h"

namespace adaptdl {

// What one replica needs; nothing where its user did not say.
struct ReplicaRequest {
  std::optional<int64_t> cpu_millicores;  // >= 1; 1000 is one core
  std::optional<int64_t> memory_bytes;    // >= 1
  std::optional<int64_t> gpus;            // 0 to 1024

  bool operator==(const ReplicaRequest&) const = default;
};

inline constexpr double kMostGrace = 1e6;  // seconds
inline constexpr int kMostRetries = 1'000'000;

struct JobSpec {
  // archive: a train.pt (adaptdl-train(5)). executable: a program built against the runtime
  // library, rescaled live as an archive is. command: anything else; it is ended and started again
  // to rescale it, as AdaptDL's Python programs expect.
  enum class Kind { archive, executable, command };

  // At most one of the two is given. A prefix is made a name by 5 more characters, so that the same
  // file can be submitted many times. Neither: whoever submits chooses.
  std::string name;         // "" or valid_job_name()
  std::string name_prefix;  // "" or valid_job_name(prefix + 5 letters); may end with '-'

  Kind kind = Kind::command;
  // A path with a slash in it, and any path of an archive or executable, is relative to
  // `directory`; other words name a command in PATH.
  std::string program;
  std::vector<std::string> arguments;
  std::string directory;  // to run in; relative to the project's folder, "" = that folder
  std::vector<std::string> settings;  // "KEY=VALUE", over those of the archive's adaptdl.yaml
  std::map<std::string, std::string> environment;  // added to what every replica gets

  int min_replicas = 0;             // fewer than these run as well as none; 0 means the same as 1
  std::optional<int> max_replicas;  // >= max(1, min); none: as many as the scheduler finds room for
  std::optional<int> requested_replicas;  // >= 1, within the two; for policies that do not adapt
  bool preemptible = true;                // false: what it was given first it keeps to its end
  ReplicaRequest request;                 // of each replica

  // Big data that is not copied with the project, each relative to the project's folder or
  // absolute.
  std::vector<std::string> data;
  std::optional<int64_t> checkpoint_size;  // bytes, >= 1, for its checkpoints; none: no limit
  std::string tensorboard;  // name of a TensorBoard instance that shows it; "" = none
  int retries = 3;          // starts after a failure that got nowhere, before it is given up
  double grace_s = 30;      // from being asked to stop to being killed, s, 0 to kMostGrace

  bool operator==(const JobSpec&) const = default;
};

inline constexpr size_t kMaxJobName = 63;
inline constexpr size_t kJobNameSuffix = 5;  // characters that make a prefix a name

// 1 to 63 lower-case letters, digits, '-' and '.', the first and last, and those beside a '.', a
// letter or digit: also a file's name, and a name in Kubernetes.
bool valid_job_name(std::string_view name);
bool valid_job_name_prefix(std::string_view prefix);

// The nearest valid prefix to some text, for a job whose user gave no name: "My Model" ->
// "my-model-". Never empty, ends with '-'.
std::string job_name_prefix(std::string_view text);

std::string_view job_kind_name(JobSpec::Kind kind);  // "archive", "executable", "command"

// One record, "format": 1, with null for what is absent ("" and none).
Json to_json(const JobSpec& spec);

// Keys that are not known are passed over and missing ones take their defaults, so that files of
// older and newer versions can be read; a format that says it cannot is refused. Throws Error
// "WHERE: ...", also for values that JobSpec does not allow.
JobSpec job_spec_from_json(const Json& object, std::string_view where);

// One number is also what a policy that does not adapt gives the job.
void set_replicas(JobSpec& spec, const ReplicaRange& range);

// Throws Error "WHERE: FIELD ..." for what the comments above do not allow. For specs that were
// changed by flags.
void check_job_spec(const JobSpec& spec, std::string_view where);

}  // namespace adaptdl
