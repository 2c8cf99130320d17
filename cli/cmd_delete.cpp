#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

std::vector<JobView> chosen_jobs(ClusterJobs& cluster, const Arguments& arguments) {
  std::vector<JobView> jobs;
  for (const std::string& name : arguments.rest()) jobs.push_back(cluster.find(name));
  if (arguments.flag("all-ended")) {
    cluster.each(ClusterJobs::Detail::brief, [&](const JobView& job) {
      if (job.ended()) jobs.push_back(job);
    });
  }
  return jobs;
}

int run(const Arguments& arguments) {
  if (arguments.rest().empty() != arguments.flag("all-ended")) {
    throw UsageError("name the jobs, or give --all-ended.");
  }
  const auto cluster = open_cluster(arguments);
  Json deleted = Json::array();
  bool failed = false;
  cluster->remove(chosen_jobs(*cluster, arguments), arguments.flag("force"),
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
      .summary = "Remove jobs that have ended, with their files",
      .text = embedded("cmd_delete.md"),
      .options = with_cluster({{.name = "force", .doc = "Cancel those first that have not ended."},
                               {.name = "all-ended", .doc = "All jobs that have ended."},
                               format_option()}),
      .positionals = {{.name = "JOB",
                       .kind = Kind::job,
                       .doc = "The jobs' names.",
                       .required = false,
                       .repeat = true}},
      .examples = {{"adaptdl delete --all-ended", "Tidy up."}},
      .run = run};
}

}  // namespace adaptdl::cli
