#pragma once

// What `adaptdl submit` was told, understood once for any cluster: from the flags, the source and
// its job file to a job's specification. Clusters differ in carrying it out (job_request.h).

#include <optional>
#include <string>
#include <vector>

#include "core/job/job_file.h"

namespace adaptdl::client {

// What the user said, by flags and their variables. Nothing, or "": not given.
struct SubmitOptions {
  std::optional<std::string> source;  // SOURCE: a folder or a file
  std::vector<std::string> words;     // behind --
  std::optional<std::string> file, name, replicas, tensorboard;
  std::vector<std::string> settings;  // KEY=VALUE
  bool quiet = false, verbose = false;
  bool no_start = false;  // of the service
  // Of Kubernetes alone.
  std::string image, repository, pull_secret;
  std::optional<std::string> base, dockerfile, platform;
  std::optional<std::string> storage_size;  // none: kDefaultStorage, or what the job file says
  std::string storage_class;
  bool proxy_port = false;  // --proxy-port was given
};

struct Submission {
  enum class Source { none, file, folder };

  SubmitOptions options;
  JobFile job;  // its spec has what the flags change; its manifest, if it has one, has not
  std::optional<ReplicaRange> replicas;  // of the flag, which the spec has, too
  Source source_kind = Source::none;
  std::string source;  // absolute; "": none
  std::string where;   // the job file, in messages; "": none

  const JobSpec& spec() const { return job.spec; }
};

inline constexpr const char* kArchiveName = "train.pt";
inline constexpr const char* kDefaultStorage = "1Gi";  // of a job's volume

// Reads the job file, the archive's or program's first bytes, and the flags, and checks all that
// does not depend on the cluster. Asks no cluster, and copies nothing. Throws UsageError or Error.
Submission resolve_submission(SubmitOptions options);

}  // namespace adaptdl::client
