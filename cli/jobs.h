#pragma once

// How jobs, and the runs of `adaptdl run`, are shown.

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_jobs.h"
#include "cli/output.h"

namespace adaptdl::cli {

// One line of `ls` and `top`, of a job or a run; every text is "-" where there is nothing to say.
struct JobRow {
  std::string name_space;  // shown if asked for
  std::string name, kind, status, replicas, step, epoch, loss, age, restarts;
  std::string places, started, runtime, reason, program;  // empty unless `wide`
};
JobRow job_row(const JobView& job, double now_s, bool wide);
JobRow run_row(const launch::RunInfo& run, double now_s, bool wide);
std::string rows_table(std::vector<JobRow> rows, bool wide, bool name_spaces = false);

// The records of `-o json`. Times are RFC 3339; null where there is none.
Json job_json(const JobView& job);
Json run_json(const launch::RunInfo& run);
Json event_json(const JobEvent& event);

// Seconds since 1970 of a time as rfc3339() writes it (nothing for another text).
std::optional<double> wall_seconds(const std::string& rfc3339);
std::string time_text(double wall_s);  // RFC 3339

// "45s", "12m07s", "3h05m", "4d02h": without blanks, for columns.
std::string short_duration(double seconds);

}  // namespace adaptdl::cli
