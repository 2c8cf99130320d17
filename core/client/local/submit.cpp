#include "core/client/local/submit.h"

#include <climits>
#include <fmt/ranges.h>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/client/known_clusters.h"
#include "core/client/local/incoming_project.h"
#include "core/client/local/service_start.h"
#include "core/client/local/tensorboard_process.h"
#include "core/cluster/local/client.h"

namespace adaptdl::client {
namespace {

using Source = Submission::Source;

constexpr Seconds kAnswerPatience{60};  // the machine may be busy, and the disk slow

// The variables with which a command finds its program and libraries as in this shell, and not as
// where the service was started.
constexpr const char* kVariables[] = {"PATH",          "VIRTUAL_ENV",     "CONDA_PREFIX",
                                      "PYTHONPATH",    "LD_LIBRARY_PATH", "ADAPTDL_LIBTORCH",
                                      "ADAPTDL_WORKER"};

std::string current_folder() {
  char path[PATH_MAX];
  if (::getcwd(path, sizeof path) == nullptr)
    fail_errno(errno, "cannot find the working directory");
  return path;
}

class LocalJobRequest : public JobRequest {
 public:
  explicit LocalJobRequest(Submission submission) : submission_(std::move(submission)) {
    if (submission_.source_kind == Source::none && !submission_.where.empty()) {
      throw UsageError("SOURCE is missing: the folder that the job file is for.");
    }
    require_one_machine(job_);
    place();
    note_ignored();
    for (const char* name : kVariables) {
      if (const auto value = environment_variable(name))
        job_.spec.environment.emplace(name, *value);
    }
  }

  Json spec() const override { return to_json(job_.spec); }
  std::vector<std::string> notes() const override { return notes_; }

  Submitted send() override {
    ensure_service();
    if (!job_.spec.tensorboard.empty()) {
      make_directories(tensorboard_folder(job_.spec.tensorboard), 0700);
    }
    IncomingProject project(submission_.source, job_.spec, notes_, options_.quiet);
    if (!options_.quiet) {
      for (const std::string& note : notes_) talk("adaptdl: " + note);
    }
    const Json answer = local::request_service(
        {{"request", "submit"}, {"spec", spec()}, {"project", project.path()}}, kAnswerPatience);
    project.keep();
    if (const std::string hint = options_.quiet ? "" : cluster_hint(); !hint.empty()) {
      talk("adaptdl: " + hint);
    }
    return {json_get<std::string>(answer, "name", "service"),
            json_get_or<std::string>(answer, "message", "service", "")};
  }

 private:
  // A command without a source runs in the working directory, and nothing is copied.
  void place() {
    if (submission_.source_kind == Source::none) {
      const std::string here = current_folder();
      add_notes(find_program(job_, here));
      job_.spec.directory = here;
    } else if (submission_.source_kind == Source::folder) {
      add_notes(find_program(job_, submission_.source));
    }
  }

  void note_ignored() {
    if (!job_.ignored.empty()) {
      notes_.push_back(fmt::format("{}: ignored on a single machine: {}", submission_.where,
                                   fmt::join(job_.ignored, ", ")));
    }
    std::vector<std::string> flags;
    if (!options_.image.empty()) flags.push_back("--image");
    if (options_.base) flags.push_back("--base");
    if (options_.dockerfile) flags.push_back("--dockerfile");
    if (options_.platform) flags.push_back("--platform");
    if (flags.empty()) return;
    notes_.push_back(fmt::format("ignored on a single machine, which runs no images: {}",
                                 fmt::join(flags, ", ")));
  }

  void add_notes(const std::vector<std::string>& notes) {
    notes_.insert(notes_.end(), notes.begin(), notes.end());
  }

  void ensure_service() const {
    if (local::service_runs()) return;
    if (options_.no_start) {
      fail(
          "no adaptdl service is running, and --no-start forbids starting one; start it with "
          "`adaptdl serve`");
    }
    start_service();
    if (!options_.quiet) {
      talk("Started the adaptdl service; `adaptdl serve --stop` stops it, and jobs keep running.");
    }
  }

  Submission submission_;  // its source is copied, if it has one
  const SubmitOptions& options_ = submission_.options;
  JobFile& job_ = submission_.job;
  std::vector<std::string> notes_;
};

}  // namespace

std::unique_ptr<JobRequest> local_job_request(Submission submission) {
  return std::make_unique<LocalJobRequest>(std::move(submission));
}

}  // namespace adaptdl::client
