#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <unistd.h>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/record_format.h"

namespace adaptdl::cli {
namespace {

constexpr auto kLook = std::chrono::seconds(1);

using EachJob = std::function<void(const local::JobRecord&, const Json& status)>;
using EachRun = std::function<void(const launch::RunInfo&)>;

// `brief`: without what JobStore::all_briefly leaves out.
void look(bool all, bool brief, const EachJob& job, const EachRun& run) {
  if (const auto store = local::open_store()) {
    const auto each = [&](local::JobRecord& record) { job(record, job_status(record, false)); };
    if (brief) {
      store->all_briefly(each);
    } else {
      store->all(each);
    }
  }
  for (const launch::RunInfo& info : launch::list_runs()) {
    if (info.live || all) run(info);
  }
}

std::vector<JobRow> rows(bool all, bool wide) {
  std::vector<JobRow> result;
  result.reserve(size_t{1} << 14);  // some thousands without moving them; costs nothing unused
  const double now = wall_now_s();
  look(
      all, !wide,
      [&](const auto& job, const Json& status) {
        result.push_back(job_row(job, status, now, wide));
      },
      [&](const auto& run) { result.push_back(run_row(run, now, wide)); });
  return result;
}

void show(const Arguments& arguments) {
  const bool all = arguments.flag("all");
  const std::string format = arguments.text("format");
  if (is_record_format(format)) {
    Json jobs = Json::array(), runs = Json::array();
    look(
        all, false,
        [&](const auto& job, const Json& status) { jobs.push_back(job_json(job, status)); },
        [&](const auto& run) { runs.push_back(run_json(run)); });
    print_record({{"jobs", std::move(jobs)}, {"runs", std::move(runs)}}, format);
    return;
  }
  const bool wide = format == "wide";
  std::vector<JobRow> found = rows(all, wide);
  if (format == "name") {
    std::string names;
    for (const JobRow& row : found) names += row.name + "\n";
    print(names);
  } else if (!found.empty()) {
    print(rows_table(std::move(found), wide));
  } else if (!arguments.quiet()) {
    talk(all ? "There are no jobs and no runs."
             : "There are no jobs, and no run is live; --all shows ended runs.");
  }
}

// As kubectl does it: the table, then a line for each job that is new or has changed. How far a job
// has trained is no change.
[[noreturn]] void watch(const Arguments& arguments) {
  const std::string format = arguments.text("format");
  const bool wide = format == "wide", as_records = is_record_format(format);
  std::map<std::string, std::string> known;
  for (bool first = true;; first = false, std::this_thread::sleep_for(kLook)) {
    std::vector<JobRow> changed;
    std::vector<Json> records;
    const double now = wall_now_s();
    const auto add = [&](JobRow row, const std::function<Json()>& record) {
      std::string sign = row.status + "\n" + row.replicas + "\n" + row.restarts;
      std::string& before = known[row.kind + "/" + row.name];
      if (before == sign) return;
      before = std::move(sign);
      if (as_records) records.push_back(record());
      changed.push_back(std::move(row));
    };
    look(
        arguments.flag("all"), !wide && !as_records,
        [&](const auto& job, const Json& status) {
          add(job_row(job, status, now, wide), [&] {
            return Json{{"job", job_json(job, status)}};
          });
        },
        [&](const auto& run) {
          add(run_row(run, now, wide), [&] { return Json{{"run", run_json(run)}}; });
        });
    if (as_records) {
      for (const Json& record : records) print_record(record, format);
    } else if (format == "name") {
      for (const JobRow& row : changed) print_line(row.name);
    } else if (first || !changed.empty()) {
      std::string text = rows_table(std::move(changed), wide);
      if (!first) text.erase(0, text.find('\n') + 1);
      print(text);
    }
  }
}

int run(const Arguments& arguments) {
  const ClusterChoice choice = chosen_cluster(arguments);
  check_cluster(choice);
  if (isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && !arguments.quiet()) {
    talk(fmt::format("cluster {}{}", choice.name,
                     choice.name == kLocalCluster ? ", this machine" : ""));
  }
  if (arguments.flag("watch")) watch(arguments);
  show(arguments);
  return 0;
}

}  // namespace

Command ls_command() {
  return {
      .name = "ls",
      .summary = "List jobs, and the runs on this machine",
      .text = embedded("cmd_ls.md"),
      .options = {{.name = "all", .letter = 'a', .doc = "Runs that have ended, too."},
                  {.name = "watch", .letter = 'w', .doc = "Go on, with a line for each change."},
                  {.name = "format",
                   .letter = 'o',
                   .kind = Kind::choice,
                   .value = "text|wide|json|yaml|name|jsonpath=PATH",
                   .fallback = "text",
                   .doc = "How to print the result.",
                   .choices = {"text", "wide", "json", "yaml", "name", kJsonPathFormat}},
                  cluster_option()},
      .examples = {{"adaptdl ls", "What has been submitted, and what trains now."},
                   {"adaptdl ls -o 'jsonpath={.jobs[?(@.phase==\"Failed\")].name}'",
                    "What failed."},
                   {"adaptdl ls -o name | xargs adaptdl delete --force", "Remove everything."}},
      .run = run};
}

}  // namespace adaptdl::cli
