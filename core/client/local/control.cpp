#include "core/client/local/control.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/client/job_wait.h"
#include "core/client/local/query.h"
#include "core/client/local/submit.h"
#include "core/cluster/local/client.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kEndPatience{120};

class LocalControl : public JobControl {
 public:
  std::unique_ptr<JobRequest> request(Submission submission) override {
    return local_job_request(std::move(submission));
  }

  Json suspend(const std::string& job, bool suspended) override {
    return ask(suspended ? "suspend" : "resume", job);
  }
  Json cancel(const std::string& job) override { return ask("cancel", job); }
  void scale(const std::string& job, int64_t min, int64_t max) override {
    local::request_service({{"request", "scale"}, {"name", job}, {"min", min}, {"max", max}});
  }

  void remove(const std::vector<JobView>& jobs, bool force, const Told& told) override;

 private:
  static Json ask(const char* request, const std::string& job) {
    const Json answer = local::request_service({{"request", request}, {"name", job}});
    if (const auto message = json_find<std::string>(answer, "message", "service")) {
      log_warning("job {}: {}", job, *message);
    }
    return answer.value("phase", Json());
  }

  static void remove_one(const JobView& job, bool force);
};

void LocalControl::remove_one(const JobView& job, bool force) {
  if (!job.ended() && force) {
    const WaitResult end =
        wait_for_jobs(*local_query(), {job.name}, WaitGoal::ended, kEndPatience, [] {});
    if (end.code == ExitCode::timeout) {
      throw Error(end.sentence + "; it was cancelled, and can be deleted once it has ended",
                  end.code);
    }
  }
  const Json answer = local::request_service({{"request", "delete"}, {"name", job.name}});
  if (const auto folder = json_find<std::string>(answer, "folder", "service")) {
    remove_tree(*folder);  // after Ctrl-C here, the service removes the rest later
  }
}

void LocalControl::remove(const std::vector<JobView>& jobs, bool force, const Told& told) {
  const auto each = [&](const std::function<void(const JobView&)>& act) {
    for (const JobView& job : jobs) {
      try {
        act(job);
      } catch (const Error& error) {
        told(job, error.what());
      }
    }
  };
  // Cancel all before waiting for any, so that their grace times overlap.
  if (force) {
    each([&](const JobView& job) {
      if (!job.ended() && !job.cancelled) ask("cancel", job.name);
    });
  }
  each([&](const JobView& job) {
    remove_one(job, force);
    told(job, "");
  });
}

}  // namespace

std::unique_ptr<JobControl> local_control() {
  return std::make_unique<LocalControl>();
}

}  // namespace adaptdl::client
