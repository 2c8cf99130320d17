#pragma once

// The input of `adaptdl submit`, resolved once for all clusters: from the flags, the source and its
// job file to a job's specification. Clusters differ in how they carry it out (job_request.h).

#include <optional>
#include <string>
#include <vector>

#include "core/job/job_file.h"

namespace adaptdl::client {

// Values of the flags and their variables. Nothing, or "": not given.
struct SubmitOptions {
  std::optional<std::string> source;  // SOURCE: a folder or a file
  std::vector<std::string> words;     // after --
  std::optional<std::string> file, name, replicas, tensorboard;
  Accelerators accelerators;
  bool restartable = false;
  std::optional<int> max_restarts;
  std::optional<std::string> role;
  std::vector<std::string> settings;  // KEY=VALUE
  bool quiet = false, verbose = false;
  bool no_start = false;  // of the service
  // Only for Kubernetes.
  std::string image, repository, pull_secret;
  std::optional<std::string> base, dockerfile, platform;
  std::optional<std::string> storage_size;  // none: kDefaultStorage, or the value of the job file
  std::string storage_class;
  bool plain_http = false;  // for a registry on another machine
  bool proxy_port = false;  // --proxy-port was given
};

struct Submission {
  enum class Source { none, file, folder };

  SubmitOptions options;
  JobFile job;  // its spec includes the flags' changes; its manifest, if any, does not
  std::optional<ReplicaRange> replicas;  // as the flag gives them; the spec has them too
  Source source_kind = Source::none;
  std::string source;  // absolute; "": none
  std::string where;   // the job file, in messages; "": none

  const JobSpec& spec() const { return job.spec; }
};

inline constexpr const char* kRoleVariable = "ROLE_NAME";
inline constexpr const char* kArchiveName = "train.pt";
inline constexpr const char* kDefaultStorage = "1Gi";  // of a job's volume

// Reads the job file, the archive or the first bytes of the program, and the flags, and checks
// everything that does not depend on the cluster, an archive's settings among it. Contacts no
// cluster, and copies nothing. Throws UsageError or Error.
Submission resolve_submission(SubmitOptions options);

}  // namespace adaptdl::client
