#pragma once

// `adaptdl exec` in a job's pods.

#include "core/client/job_transfer.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// As JobTransfer::exec. With a terminal on standard input and output, the command gets one, too.
int exec_in_pod(KubernetesConnection& cluster, const Json& job, const ExecRequest& request);

// What a node said of a command that could not be started, as an exit code; nothing if it says
// something else. Pure.
std::optional<int> start_failure(const std::string& message);

}  // namespace adaptdl::client
