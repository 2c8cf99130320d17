#include <functional>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/job_wait.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kEndPatience{120};

void cancel_job(const local::JobRecord& job) {
  if (!job.ended() && !job.cancelled) {
    local::request_service({{"request", "cancel"}, {"name", job.name}});
  }
}

void delete_job(const local::JobRecord& job, bool force) {
  if (!job.ended() && force) {
    const WaitResult end = wait_for_jobs({job.name}, WaitGoal::ended, kEndPatience, [] {});
    if (end.code == ExitCode::timeout) {
      throw Error(end.sentence + "; it was cancelled, and can be deleted once it has ended",
                  end.code);
    }
  }
  const Json answer = local::request_service({{"request", "delete"}, {"name", job.name}});
  if (const auto folder = json_find<std::string>(answer, "folder", "service")) {
    remove_tree(*folder);  // Ctrl-C here leaves the rest to the next start of the service
  }
}

std::vector<local::JobRecord> chosen_jobs(const Arguments& arguments) {
  const auto store = local::open_store();
  std::vector<local::JobRecord> jobs;
  for (const std::string& name : arguments.rest()) jobs.push_back(find_job(store.get(), name));
  if (arguments.flag("all-ended") && store) {
    store->all([&](local::JobRecord& job) {
      if (job.ended()) jobs.push_back(job);
    });
  }
  return jobs;
}

int run(const Arguments& arguments) {
  require_local_cluster(arguments);
  if (arguments.rest().empty() != arguments.flag("all-ended")) {
    throw UsageError("name the jobs, or give --all-ended.");
  }
  Json deleted = Json::array();
  bool failed = false;
  const std::vector<local::JobRecord> jobs = chosen_jobs(arguments);
  const auto each = [&](const std::function<void(const local::JobRecord&)>& act) {
    for (const local::JobRecord& job : jobs) {
      try {
        act(job);
      } catch (const Error& error) {  // the others may go all the same
        failed = true;
        talk(std::string("adaptdl: ") + error.what());
      }
    }
  };
  // All are told before any is waited for: they take their grace time together.
  if (arguments.flag("force")) each(cancel_job);
  each([&](const local::JobRecord& job) {
    delete_job(job, arguments.flag("force"));
    deleted.push_back(job.name);
    if (!arguments.json()) print_line(job.name + ": deleted");
  });
  if (arguments.json()) print_json({{"deleted", deleted}});
  return failed ? 1 : 0;
}

}  // namespace

Command delete_command() {
  return {.name = "delete",
          .summary = "Remove jobs that have ended, with their files",
          .text = embedded("cmd_delete.md"),
          .options = {{.name = "force", .doc = "Cancel those first that have not ended."},
                      {.name = "all-ended", .doc = "All jobs that have ended."},
                      format_option(),
                      cluster_option()},
          .positionals = {{.name = "JOB",
                           .kind = Kind::job,
                           .doc = "The jobs' names.",
                           .required = false,
                           .repeat = true}},
          .examples = {{"adaptdl delete --all-ended", "Tidy up."}},
          .run = run};
}

}  // namespace adaptdl::cli
