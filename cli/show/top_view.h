#pragma once

// What `top` shows on a terminal, and what its keys do. Pure: the command reads the cluster and the
// keys, and writes the lines.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/show/jobs.h"
#include "core/base/nvml.h"
#include "core/client/job_query.h"

namespace adaptdl::cli {

struct TopLook {
  size_t width = 80, height = 24;
  bool utf8 = false;
};

class TopView {
 public:
  // `order`: one of job_orders().
  TopView(std::string order, bool reverse);

  // The cluster's present state, in one line or more (`head`), and the jobs in order of submission.
  // The selection stays with its job.
  void update(std::string head, std::vector<JobRow> rows, double now_s);

  // Takes a key of keys.h; false: leave.
  bool key(int key);

  // The name of the job, not a run, whose chart is shown: the caller reads its curve.
  std::optional<std::string> charted_job() const;
  // Further points of that job's own curve. The first ones replace what was seen of its status.
  void add_curve(const std::vector<CurvePoint>& points);

  // At most `height` lines of at most `width` columns, with escape sequences for the selected row.
  std::vector<std::string> lines(const TopLook& look) const;
  // The head and every row, for the time after the display.
  std::string text() const;

 private:
  struct Curve {
    std::vector<CurvePoint> points;
    bool read = false;  // by the caller: complete
  };

  const JobRow* selected() const;
  const JobRow* charted() const;
  void sort();
  void select(size_t index);
  void see(const JobRow& row);
  std::vector<std::string> list_lines(const TopLook& look) const;
  std::vector<std::string> chart_screen(const TopLook& look) const;

  std::string order_, head_;
  bool reverse_;
  double now_s_ = 0;
  std::vector<JobRow> listed_, rows_;  // in order of submission, and as shown
  std::string selected_, charted_;     // identities; "": none
  size_t selected_index_ = 0;
  JobRow last_charted_;  // of a job that has ended since
  std::map<std::string, Curve> curves_;
};

// "GPU 0  NVIDIA H200  87 % busy  34.0 GiB of 140.4 GiB  61 C  512 W"
std::string gpu_line(size_t number, const Gpu& gpu, const GpuLoad& load);

// The head and a table of the rows, `width` as in TableLook.
std::string top_text(const std::string& head, const std::vector<JobRow>& rows, size_t width);

}  // namespace adaptdl::cli
