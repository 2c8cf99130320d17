#pragma once

// job.json of a job's folder: the specification as it was submitted and stored, and beside it what
// the service grants. The service writes it at the submission and before each start; the runner and
// `adaptdl exec` read it.

#include <string>
#include <string_view>

#include "core/cluster/local/runner/job_folder.h"
#include "core/formats/json.h"
#include "core/job/job_spec.h"
#include "core/launch/run/run.h"

namespace adaptdl::local {

// What the service decides of a job, and no specification says. Which slots it has is told at each
// start, and later over the control socket.
struct Grant {
  std::string name, job_namespace = "default";
  std::string directory;  // absolute: where the specification's `directory` is
  int min_replicas = 1, max_replicas = launch::kMaxReplicas;  // as scaled; 1 <= min <= max
  std::string slot_kind = "core";                             // Machine::slot_kind()
  int slots_per_replica = 1;                                  // >= 1
  std::string tensorboard;  // absolute: the instance's folder; "" = none

  bool on_gpus() const { return slot_kind == "gpu"; }  // slots are GPUs, else cores
  bool bound() const {
    return slot_kind != "shared";
  }  // they are a replica's own, not just numbers
};

struct GrantedJob {
  JobSpec spec;
  Grant grant;
};

// The file's text; `spec` is JSON, and becomes a part of it as it is.
std::string job_file_text(std::string_view spec, const Grant& grant);

// Also of the earlier format 1. Unknown keys are passed over, missing ones and null take the
// defaults above. Throws Error "WHERE: ...", also for a newer format.
GrantedJob granted_job(const Json& job_file, const std::string& where);
GrantedJob read_granted_job(const JobFolder& folder);

// The name alone, of a file that may be anybody's.
std::string granted_name(const Json& job_file, const std::string& where);

}  // namespace adaptdl::local
