#pragma once

// The curves of a job of this machine, from the events in its folder.

#include <memory>
#include <string>

#include "core/client/job_query.h"

namespace adaptdl::client {

// Follows the step events of `path`, after those of `path`.1
// (core/cluster/local/runner/line_file.h). The job's program can write these files, so they may
// contain anything: lines that are no events are skipped, and of a large file only the last 16 MiB
// are read.
std::unique_ptr<CurveReader> read_curve(const std::string& path);

}  // namespace adaptdl::client
