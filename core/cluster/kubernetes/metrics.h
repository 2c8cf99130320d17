#pragma once

// The operator's metrics in Prometheus's text format 0.0.4. Pure.

#include <string>
#include <vector>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/jobs/controller.h"

namespace adaptdl::kubernetes {

// Series by job cover unfinished jobs; AdaptDL's two totals cover all jobs that the cluster still
// has.
std::string metrics_text(const std::vector<KnownJob>& jobs, const ControllerFigures& figures,
                         bool leads, bool watches_up);

// A label's value with \, " and line ends escaped.
std::string escaped_label(std::string_view value);

}  // namespace adaptdl::kubernetes
