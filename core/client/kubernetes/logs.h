#pragma once

// What the pods of a job print.

#include <memory>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// `uid`: the job's, so that no other pod with its label is heard. `may_grow` answers for the job.
// Following, one thread watches the pods and one reads each of them; else they are read in turn, by
// group and rank, when next() is called. Of pods with several containers the first one is read. A
// replica whose log cannot be read is told on standard error; not following, it is an Error if that
// is so of all. When the job has ended, its pods have as long as they bring something, and then
// `last_words` to end; those that have not are told, too. `cluster` outlives it.
std::unique_ptr<LogReader> read_kubernetes_logs(KubernetesConnection& cluster,
                                                const std::string& uid, const LogOptions& options,
                                                std::function<bool()> may_grow,
                                                Seconds last_words = Seconds(10));

}  // namespace adaptdl::client
