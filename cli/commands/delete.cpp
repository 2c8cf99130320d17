#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

std::vector<JobView> chosen_jobs(JobQuery& query, const Arguments& arguments) {
  std::vector<JobView> jobs;
  for (const std::string& name : arguments.rest()) jobs.push_back(query.find(name));
  if (arguments.flag("all-ended")) {
    query.each(JobQuery::Detail::brief, [&](const JobView& job) {
      if (job.ended()) jobs.push_back(job);
    });
  }
  return jobs;
}

int run_delete(const Arguments& arguments) {
  if (arguments.rest().empty() != arguments.flag("all-ended")) {
    throw UsageError("name the jobs, or give --all-ended.");
  }
  const ClusterJobs cluster = open_cluster(arguments);
  Json deleted = Json::array();
  bool failed = false;
  cluster.control->remove(chosen_jobs(*cluster.query, arguments), arguments.flag("force"),
                          [&](const JobView& job, const std::string& problem) {
                            if (!problem.empty()) {
                              failed = true;
                              talk("adaptdl: " + problem);
                              return;
                            }
                            deleted.push_back(job.name);
                            if (!arguments.json()) print_line(job.name + ": deleted");
                          });
  if (arguments.json()) print_json({{"deleted", deleted}});
  return failed ? 1 : 0;
}

}  // namespace

Command delete_command() {
  return {
      .name = "delete",
      .summary = "Remove ended jobs and their files",
      .text = embedded("delete.md"),
      .options = with_cluster({{.name = "force", .doc = "Cancel jobs that have not ended first."},
                               {.name = "all-ended", .doc = "Delete all jobs that have ended."},
                               format_option()}),
      .positionals = {{.name = "JOB",
                       .kind = Kind::job,
                       .doc = "The jobs' names.",
                       .required = false,
                       .repeat = true}},
      .examples = {{"adaptdl delete --all-ended", "Remove all ended jobs."}},
      .run = run_delete};
}

}  // namespace adaptdl::cli
