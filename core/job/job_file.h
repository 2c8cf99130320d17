#pragma once

// adaptdljob.yaml -> JobSpec. Two forms (adaptdl-job(5)), told apart by the keys `apiVersion` and
// `kind`: the AdaptDLJob that AdaptDL's own clusters take, and a short form of ours.

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
  // How many of spec.arguments belong to the command itself; those after them are what arguments on
  // a command line replace.
  size_t command_arguments = 0;
  // The command comes from a pod template, so its paths are those of a container's image.
  bool in_image = false;
  std::string program_place;  // "FILE:LINE: KEY" of the program, for complaints about it
  // Paths of what the file says and one machine has no use for, such as
  // spec.template.spec.volumes; to be named in one warning.
  std::vector<std::string> ignored;
  // Of an AdaptDLJob: the object as a Kubernetes cluster takes it, without its status.
  std::optional<Json> manifest;
  // Why one machine cannot run an AdaptDLJob, "FILE:LINE: KEY: ..."; "" if it can. If it cannot,
  // `spec` has the name and the replicas alone.
  std::string only_in_cluster;
};

// Pure: asks neither the disk nor the environment. `file` names the text in messages. Throws Error
// "FILE:LINE: KEY: what is wrong; what is allowed".
JobFile parse_job_file(std::string_view text, const std::string& file);

// Throws Error(only_in_cluster), if there is one.
void require_one_machine(const JobFile& job);

// Puts `arguments` in the place of those that the file gives; the command itself stays.
void replace_arguments(JobFile& job, const std::vector<std::string>& arguments);

// Checks that what `job` runs is there: in the project's folder `project` (or its copy), on this
// machine, or for a bare word in PATH (of the job's environment, else of this process). Throws
// Error that begins with program_place and says what to do.
//
// A path of an image, as in [python3, /root/tutorial/mnist.py], where the image held the project:
// the program, or the script that it is given first, is taken as the file of the project whose
// path has the most names at its end in common (mnist.py), and a sentence returned says so. A
// working folder of an image is treated likewise. `job` is changed accordingly.
std::vector<std::string> find_program(JobFile& job, const std::string& project);

}  // namespace adaptdl
