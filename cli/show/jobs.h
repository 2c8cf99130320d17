#pragma once

// How jobs, and the runs of `adaptdl run`, are shown.

#include <optional>
#include <string>
#include <vector>

#include "cli/frame/output.h"
#include "core/client/job_view.h"
#include "core/launch/client.h"

namespace adaptdl::cli {

// One line of `ls` and `top`, of a job or a run. Texts are "-" where there is no value.
struct JobRow {
  std::string name_space;  // shown if requested
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

}  // namespace adaptdl::cli
