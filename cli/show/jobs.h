#pragma once

// How jobs, and the runs of `adaptdl run`, are shown.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/frame/output.h"
#include "core/client/training_facts.h"
#include "core/launch/client.h"

namespace adaptdl::cli {

// One line of `ls` and `top`, of a job or a run. Texts are "-" where there is no value.
struct JobRow {
  std::string name_space;
  std::string name, kind, status, replicas, step, epoch, loss, age, restarts;
  std::string places, started, runtime, reason, program;  // empty unless `wide`
  std::string done, left, goodput, batch;
  std::string gpus;  // "87 % busy, 61 C, 2045 W"
  double age_s = 0;
  double begun_s = 0;  // submission or start, which tells apart those of one name; 0: unknown
  TrainingFacts training;
};
JobRow job_row(const JobView& job, double now_s, bool wide);
JobRow run_row(const launch::RunInfo& run, double now_s, bool wide);

// As JobRow::gpus; "" where nothing is known.
std::string gpus_text(const TrainingFacts& facts);

struct TableLook {
  bool wide = false;         // every column but that of the namespace
  bool name_spaces = false;  // that of the namespace, too
  bool figures = false;      // goodput and batch
  size_t width = 0;          // leave out the least important columns of a wider table; 0: none
};

// Where the columns of a table come from, in their order. New ones come last, so that scripts which
// count columns keep working.
struct JobColumn {
  const char* head;
  std::string JobRow::*text;
};
std::vector<JobColumn> job_columns(const std::vector<JobRow>& rows, const TableLook& look);
// `widths`: as for table().
std::string rows_table(std::vector<JobRow> rows, const std::vector<JobColumn>& columns,
                       std::vector<size_t>* widths = nullptr);

// What `ls --watch` has shown of each job and run.
class ShownRows {
 public:
  bool has(const JobRow& row) const;
  // Whether the row is new or has changed, but for the progress of its training. Remembers it.
  bool take(const JobRow& row);

 private:
  std::map<std::string, std::string> signs_;
};

// The records of `-o json`. Times are RFC 3339; null where there is none.
Json job_json(const JobView& job);
Json run_json(const launch::RunInfo& run);
Json event_json(const JobEvent& event);

}  // namespace adaptdl::cli
