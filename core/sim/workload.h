#pragma once

// The jobs that users submit to a simulated cluster, and when. The file's suffix selects the
// format:
//
//   .csv, as published with Pollux (OSDI'21): name,time,application,num_replicas,batch_size
//   .yaml, .yml:
//     jobs:
//       - name: digits-1
//         submitted_s: 29        # seconds from the start; also "5m", "1h 30m"
//         application: cifar10   # of the profiles
//         replicas: 4            # requested by its user; only policies that do not adapt use it
//         batch_size: 512        # total, as above
//         min_replicas: 0        # this and the following keys are optional
//         max_replicas: 8        # default: as many as the profile allows
//         preemptible: true
//         silent: false          # true: a command that keeps its batch size, and tells the
//                                # scheduler nothing of its speed
//         restartable: false     # of a silent job: it may get more than min_replicas
//         restart_s: 30          # of a silent job: seconds that a start or a restart takes; the
//                                # scheduler does not know. Default: as for other jobs
//         count: 1               # above 1: so many jobs, named digits-1-0, digits-1-1, ...
//         every_s: 0             # time from one of them to the next

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/yaml.h"

namespace adaptdl {

struct WorkloadJob {
  std::string name;         // unique
  double submitted_s = 0;   // >= 0
  std::string application;  // one that has a profile
  int replicas = 1;         // >= 1
  int64_t batch_size = 1;   // total, >= 1
  int min_replicas = 0;
  int max_replicas = std::numeric_limits<int>::max();  // >= max(1, min_replicas)
  bool preemptible = true;
  bool silent = false, restartable = false;
  std::optional<double> restart_s;  // >= 0; only of a silent job
};

// In the file's order, which breaks ties between jobs; not necessarily by time. Throws Error naming
// file, line and field for invalid values: a duplicate name, an application that is not in
// `applications` (the error lists them), numbers out of range, no job.
std::vector<WorkloadJob> read_workload(const std::string& path,
                                       const std::vector<std::string>& applications);

// The same from a text; `path` is for messages and the suffix.
std::vector<WorkloadJob> parse_workload(std::string text, const std::string& path,
                                        const std::vector<std::string>& applications);

// The same from the list `jobs` of another file at `path`.
std::vector<WorkloadJob> workload_from(const YamlNode& list, const std::string& path,
                                       const std::vector<std::string>& applications);

}  // namespace adaptdl
