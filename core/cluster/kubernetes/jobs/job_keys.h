#pragma once

// What the pods of a job know and others do not. Both are derived from the installation's key and
// the job's uid: the operator need not read the jobs' Secrets, and a new job of the same name has
// others.

#include <string>

#include "core/cluster/kubernetes/jobs/job_object.h"

namespace adaptdl::kubernetes {

struct JobKeys {
  std::string token;  // by which the supervisor knows the job; sent with every request
  std::string links;  // of connections between its pods; never sent
};

// `key`: the installation's. Thread-safe.
JobKeys job_keys(const std::string& key, const JobObject& job);

}  // namespace adaptdl::kubernetes
