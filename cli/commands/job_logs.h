#pragma once

// The logs of a job or run on standard output.

#include <functional>
#include <string>

#include "cli/frame/names.h"
#include "core/client/job_query.h"

namespace adaptdl::cli {

// Returns when everything is printed that is wanted; false if no replica has a log yet. Throws
// Error: no such job, run or replica.
bool show_logs(JobQuery& query, const LogOptions& options);

// Prints what is new in the logs of a job, each time it is called; once `ended`, also a last line
// without a newline. One thread.
std::function<void(bool ended)> job_log_printer(JobQuery& query, const std::string& job);

}  // namespace adaptdl::cli
