#pragma once

// adaptdljob.yaml -> JobSpec. There are two forms (adaptdl-job(5)): the AdaptDLJob of AdaptDL's own
// clusters, recognised by the keys `apiVersion` and `kind`, and our short form.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/job_spec.h"

namespace adaptdl {

inline constexpr const char* kJobFileName = "adaptdljob.yaml";

struct JobFile {
  JobSpec spec;
  // How many of spec.arguments belong to the command itself. Arguments on a command line replace
  // those after them.
  size_t command_arguments = 0;
  // The command comes from a pod template, so its paths are those of a container's image.
  bool in_image = false;
  std::string program_place;  // "FILE:LINE: KEY" of the program, for errors about it
  // Paths of keys without effect on one machine, such as spec.template.spec.volumes; for one
  // warning.
  std::vector<std::string> ignored;
  // Of an AdaptDLJob: the object for a Kubernetes cluster, without its status.
  std::optional<Json> manifest;
  // Why one machine cannot run an AdaptDLJob, "FILE:LINE: KEY: ..."; "" if it can. If it cannot,
  // `spec` has only the name and the replicas.
  std::string only_in_cluster;
};

// Pure: reads neither the disk nor the environment. `file` names the text in messages. Throws Error
// "FILE:LINE: KEY: what is wrong; what is allowed".
JobFile parse_job_file(std::string_view text, const std::string& file);

// Throws Error(only_in_cluster), if there is one.
void require_one_machine(const JobFile& job);

// Replaces the arguments of the file by `arguments`; the command itself stays.
void replace_arguments(JobFile& job, const std::vector<std::string>& arguments);

// Checks that the program of `job` exists: in the project's folder `project` (or its copy), on this
// machine, or for a bare word in PATH (of the job's environment, else of this process). Throws
// Error that starts with program_place and says what to do.
//
// For a path in an image that held the project, as in [python3, /root/tutorial/mnist.py], the
// program or its first script is replaced by the file of the project whose path has the most
// trailing names in common (mnist.py). An image's working directory is replaced likewise. Changes
// `job`, and returns one sentence for each replacement.
std::vector<std::string> find_program(JobFile& job, const std::string& project);

}  // namespace adaptdl
