#pragma once

// What a replica is told by ADAPTDL_* variables (adaptdl-runtime(3), ENVIRONMENT), under the names
// of Python's adaptdl.env. Of a program that `adaptdl run` started, they tell what the launcher
// has said: after training has begun, of the present replicas, which change.
//
// Any thread, while no thread changes the environment. Numbers throw std::runtime_error for a text
// that is none, or out of range. An empty variable counts as not set.

#include <cstdint>
#include <optional>
#include <string>

namespace adaptdl::env {

std::optional<std::string> checkpoint_path();  // the folder of checkpoints
std::optional<std::string> share_path();       // a folder for the program's own use
std::optional<std::string> job_id();           // NAMESPACE/NAME; of `adaptdl run` its --name
std::optional<std::string> supervisor_url();
std::optional<std::string> scheduler_version();  // ADAPTDL_SCHED_VERSION

std::string master_addr();  // the host of rank 0; "0.0.0.0" if not set
int master_port();          // TCP port there, 0 to 65535; 0 if not set
int replica_rank();         // 0 to num_replicas() - 1; 0 if not set
int num_replicas();         // >= 1; 1 if not set
int num_nodes();            // that the replicas are on, >= 1; num_replicas() if not set
int64_t num_restarts();     // how often all replicas have started before, >= 0; 0 if not set

}  // namespace adaptdl::env
