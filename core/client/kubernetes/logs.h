#pragma once

// The logs of a job's pods.

#include <memory>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// `uid`: the job's uid, which excludes other pods with its label. `may_grow`: whether the job may
// still print. When following, one thread watches the pods, and one thread per pod reads its log;
// otherwise next() reads the logs in turn, by group and rank. Of several containers only the first
// is read. A log that cannot be read is reported on standard error; without following it is an
// Error if no log can be read. After the job has ended, reading continues while there is output,
// and then for `last_words`; replicas whose log has not ended by then are reported, too. `cluster`
// outlives the reader.
std::unique_ptr<LogReader> read_kubernetes_logs(KubernetesConnection& cluster,
                                                const std::string& uid, const LogOptions& options,
                                                std::function<bool()> may_grow,
                                                Seconds last_words = Seconds(10));

}  // namespace adaptdl::client
