#pragma once

// job.json of a job's folder: the specification as submitted, and the service's grant. The service
// writes it at the submission and before each start; the runner and `adaptdl exec` read it.

#include <map>
#include <string>
#include <string_view>

#include "core/cluster/local/runner/job_folder.h"
#include "core/formats/json.h"
#include "core/job/job_spec.h"
#include "core/launch/run/run.h"

namespace adaptdl::local {

// What the service decides for a job. The slots are not part of it: the runner gets them at each
// start, and later over the control socket.
struct Grant {
  std::string name, job_namespace = "default";
  std::string directory;  // the specification's `directory`, as an absolute path
  int min_replicas = 1, max_replicas = launch::kMaxReplicas;  // as scaled; 1 <= min <= max
  std::string slot_kind = "core";                             // Machine::slot_kind()
  int slots_per_replica = 1;                                  // >= 1
  // The kinds of the machine's slots by their numbers for the runner; none where all are alike.
  std::map<int, std::string> accelerators;
  std::string tensorboard;  // absolute path of the instance's folder; "": none

  bool on_gpus() const { return slot_kind == "gpu"; }  // slots are GPUs, else cores
  bool bound() const {
    return slot_kind != "shared";
  }  // each slot is a GPU or core of its own, not just a count
};

struct GrantedJob {
  JobSpec spec;
  Grant grant;
};

// The file's text; `spec` is JSON, and is inserted unchanged.
std::string job_file_text(std::string_view spec, const Grant& grant);

// Also reads the earlier format 1. Ignores unknown keys; missing ones and null take the defaults
// above. Throws Error "WHERE: ...", also for a newer format.
GrantedJob granted_job(const Json& job_file, const std::string& where);
GrantedJob read_granted_job(const JobFolder& folder);

// Only the name, from a file that may not be ours.
std::string granted_name(const Json& job_file, const std::string& where);

}  // namespace adaptdl::local
