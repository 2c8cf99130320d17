#pragma once

// Prints the logs of a job or run to standard output.

#include <functional>
#include <string>

#include "cli/frame/names.h"
#include "core/client/job_query.h"

namespace adaptdl::cli {

// Returns when everything requested is printed; false if no replica has a log yet. Throws Error if
// the job, run or replica is not found.
bool show_logs(JobQuery& query, const LogOptions& options);

// A function that prints new log lines of a job at each call; once `ended`, also an incomplete last
// line. One thread.
std::function<void(bool ended)> job_log_printer(JobQuery& query, const std::string& job);

}  // namespace adaptdl::cli
