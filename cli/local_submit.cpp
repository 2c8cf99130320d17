#include "cli/incoming_project.h"
#include "cli/job_request.h"
#include "cli/known_clusters.h"
#include "cli/output.h"
#include "cli/service_start.h"
#include "cli/submission.h"
#include "cli/tensorboard_process.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/client.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kAnswerPatience{60};  // the machine may be busy, and the disk slow

class LocalJobRequest : public JobRequest {
 public:
  explicit LocalJobRequest(const Arguments& arguments)
      : arguments_(arguments), submission_(read_submission(arguments)) {}

  Json spec() const override { return to_json(submission_.spec); }
  std::vector<std::string> notes() const override { return submission_.notes; }

  Submitted send() override {
    ensure_service();
    if (!submission_.spec.tensorboard.empty()) {
      make_directories(tensorboard_folder(submission_.spec.tensorboard), 0700);
    }
    IncomingProject project(submission_, arguments_.quiet());
    if (!arguments_.quiet()) {
      for (const std::string& note : submission_.notes) talk("adaptdl: " + note);
    }
    const Json answer = local::request_service(
        {{"request", "submit"}, {"spec", spec()}, {"project", project.path()}}, kAnswerPatience);
    project.keep();
    if (const std::string hint = arguments_.quiet() ? "" : cluster_hint(); !hint.empty()) {
      talk("adaptdl: " + hint);
    }
    return {json_get<std::string>(answer, "name", "service"),
            json_get_or<std::string>(answer, "message", "service", "")};
  }

 private:
  void ensure_service() const {
    if (local::service_runs()) return;
    if (arguments_.flag("no-start")) {
      fail("no adaptdl service runs, and --no-start says to start none; `adaptdl serve` does");
    }
    start_service();
    if (!arguments_.quiet()) {
      talk("Started the adaptdl service; `adaptdl serve --stop` ends it, and leaves jobs alone.");
    }
  }

  const Arguments& arguments_;
  Submission submission_;
};

}  // namespace

std::unique_ptr<JobRequest> local_job_request(const Arguments& arguments) {
  return std::make_unique<LocalJobRequest>(arguments);
}

}  // namespace adaptdl::cli
