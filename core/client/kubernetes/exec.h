#pragma once

// `adaptdl exec` in a job's pods.

#include "core/client/job_transfer.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// As JobTransfer::exec. If standard input and output are a terminal, the command gets one, too.
int exec_in_pod(KubernetesConnection& cluster, const Json& job, const ExecRequest& request);

// The exit code for a node's message that it could not start a command; nothing for another
// message. Pure.
std::optional<int> start_failure(const std::string& message);

}  // namespace adaptdl::client
