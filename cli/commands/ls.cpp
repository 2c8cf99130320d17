#include <functional>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/frame/record_format.h"
#include "cli/show/jobs.h"
#include "core/base/system.h"

namespace adaptdl::cli {
namespace {

using Detail = JobQuery::Detail;

// The runs that are listed without `--all`.
JobQuery::EachRun live_runs(bool all, JobQuery::EachRun take) {
  return [all, take = std::move(take)](const launch::RunInfo& run) {
    if (run.live || all) take(run);
  };
}

// On a terminal the table fits its width; elsewhere every column has its place.
TableLook table_look(const Arguments& arguments) {
  TableLook look;
  look.wide = arguments.text("format") == "wide";
  look.name_spaces = arguments.flag("all-namespaces");
  if (!look.wide && is_terminal(STDOUT_FILENO)) {
    look.width = static_cast<size_t>(terminal_width(STDOUT_FILENO));
  }
  return look;
}

std::vector<JobRow> rows(JobQuery& query, bool all, bool wide) {
  std::vector<JobRow> result;
  result.reserve(size_t{1} << 14);  // for thousands of jobs; unused memory costs nothing
  const double now = wall_now_s();
  query.each(wide ? Detail::wide : Detail::brief,
             [&](const JobView& job) { result.push_back(job_row(job, now, wide)); });
  query.each_run(
      live_runs(all, [&](const auto& run) { result.push_back(run_row(run, now, wide)); }));
  return result;
}

void show(JobQuery& query, const Arguments& arguments) {
  const bool all = arguments.flag("all");
  const std::string format = arguments.text("format");
  if (is_record_format(format)) {
    Json jobs = Json::array(), runs = Json::array();
    query.each(Detail::full, [&](const JobView& job) { jobs.push_back(job_json(job)); });
    query.each_run(live_runs(all, [&](const auto& run) { runs.push_back(run_json(run)); }));
    print_record({{"jobs", std::move(jobs)}, {"runs", std::move(runs)}}, format);
    return;
  }
  const bool wide = format == "wide";
  std::vector<JobRow> found = rows(query, all, wide);
  if (format == "name") {
    std::string names;
    for (const JobRow& row : found) names += row.name + "\n";
    print(names);
  } else if (!found.empty()) {
    const std::vector<JobColumn> columns = job_columns(found, table_look(arguments));
    print(rows_table(std::move(found), columns));
  } else if (!arguments.quiet()) {
    talk(query.nothing(all));
  }
}

// Like kubectl: the table, then a line for each new or changed job. Of a run that was shown its end
// is, too.
void watch(JobQuery& query, const Arguments& arguments) {
  const std::string format = arguments.text("format");
  const bool wide = format == "wide", as_records = is_record_format(format);
  const bool all = arguments.flag("all");
  ShownRows shown;
  std::vector<JobRow> changed;
  std::vector<JobColumn> columns;  // those of the first table
  std::vector<size_t> widths;
  std::vector<Json> records;
  bool first = true;
  const auto add = [&](JobRow row, const std::function<Json()>& record) {
    if (!shown.take(row)) return;
    if (as_records) records.push_back(record());
    changed.push_back(std::move(row));
  };
  const auto tell = [&] {
    if (as_records) {
      for (const Json& record : records) print_record(record, format);
    } else if (format == "name") {
      for (const JobRow& row : changed) print_line(row.name);
    } else if (first || !changed.empty()) {
      if (columns.empty()) columns = job_columns(changed, table_look(arguments));
      std::string text = rows_table(std::move(changed), columns, &widths);
      if (!first) text.erase(0, text.find('\n') + 1);
      print(text);
    }
    first = false;
    changed.clear();
    records.clear();
  };
  query.watch(
      as_records ? Detail::full
      : wide     ? Detail::wide
                 : Detail::brief,
      [&](const JobView& job) {
        add(job_row(job, wall_now_s(), wide), [&] { return Json{{"job", job_json(job)}}; });
      },
      [&](const launch::RunInfo& run) {
        JobRow row = run_row(run, wall_now_s(), wide);
        if (!run.live && !all && !shown.has(row)) return;
        add(std::move(row), [&] { return Json{{"run", run_json(run)}}; });
      },
      tell);
}

int run_ls(const Arguments& arguments) {
  const auto query = open_cluster(arguments).query;
  if (isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && !arguments.quiet()) {
    talk("cluster " + query->title());
  }
  if (arguments.flag("watch")) {
    watch(*query, arguments);
  } else {
    show(*query, arguments);
  }
  return 0;
}

}  // namespace

Command ls_command() {
  return {
      .name = "ls",
      .summary = "List jobs and the runs on this machine",
      .text = embedded("ls.md"),
      .options = with_cluster(
          {{.name = "all", .letter = 'a', .doc = "Include runs that have ended."},
           {.name = "all-namespaces",
            .letter = 'A',
            .doc = "Kubernetes: list all namespaces, with a column for the namespace."},
           {.name = "selector",
            .letter = 'l',
            .kind = Kind::text,
            .value = "LABELS",
            .doc =
                "Kubernetes: list only jobs with these labels, such as team=vision,stage!=test."},
           {.name = "watch",
            .letter = 'w',
            .doc = "Keep running, and print a line for each change."},
           {.name = "format",
            .letter = 'o',
            .kind = Kind::choice,
            .value = "text|wide|json|yaml|name|jsonpath=PATH",
            .fallback = "text",
            .doc = "Output format.",
            .choices = {"text", "wide", "json", "yaml", "name", kJsonPathFormat}}}),
      .examples = {{"adaptdl ls", "List submitted jobs and live runs."},
                   {"adaptdl ls -o 'jsonpath={.jobs[?(@.phase==\"Failed\")].name}'",
                    "Names of failed jobs."},
                   {"adaptdl ls -o name | xargs adaptdl delete --force", "Remove everything."}},
      .run = run_ls};
}

}  // namespace adaptdl::cli
