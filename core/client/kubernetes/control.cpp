#include "core/client/kubernetes/control.h"

#include "core/base/error.h"
#include "core/client/kubernetes/job_objects.h"
#include "core/client/kubernetes/submit.h"
#include "core/client/kubernetes/view.h"

namespace adaptdl::client {
namespace {

class KubernetesControl : public JobControl {
 public:
  explicit KubernetesControl(std::shared_ptr<KubernetesConnection> cluster)
      : cluster_(std::move(cluster)) {}

  std::unique_ptr<JobRequest> request(Submission submission) override {
    return kubernetes_job_request(*cluster_, std::move(submission));
  }

  Json suspend(const std::string& job, bool suspended) override {
    if (suspended) {
      const Json found = find_job_object(*cluster_, job);
      const bool pinned = found.value("/spec/preemptible"_json_pointer, Json()) == false;
      if (pinned && !kubernetes_view(found).ended()) {
        fail("job {} is not preemptible; it can be cancelled", job);
      }
    }
    return change(job, "suspend", {{"suspend", suspended}});
  }
  Json cancel(const std::string& job) override { return change(job, "cancel", {{"cancel", true}}); }
  void scale(const std::string& job, int64_t min, int64_t max) override {
    change(job, "maxReplicas", {{"minReplicas", min}, {"maxReplicas", max}});
  }

  void remove(const std::vector<JobView>& jobs, bool force, const Told& told) override;

 private:
  // Changes the specification of an unfinished job, and returns its phase. `key`: a field that the
  // cluster's definition of jobs must have, since the cluster silently drops unknown ones.
  Json change(const std::string& name, const char* key, const Json& spec) {
    const JobView before = kubernetes_view(find_job_object(*cluster_, name));
    if (before.ended()) fail("{} has ended: {}", name, before.phase);
    const Json after = cluster_->reach([&] {
      return cluster_->client().patch(cluster_->jobs(name), kube::PatchKind::merge,
                                      {{"spec", spec}});
    });
    if (after["spec"].value(key, Json()) != spec[key]) {
      cluster_->lacks_field(key);
    }
    return kubernetes_view(after).phase;
  }

  const std::shared_ptr<KubernetesConnection> cluster_;
};

void KubernetesControl::remove(const std::vector<JobView>& jobs, bool force, const Told& told) {
  for (const JobView& job : jobs) {
    try {
      if (!job.ended() && !force) {
        fail("{} has not ended; to cancel and delete it, use --force", job.name);
      }
      cluster_->reach([&] { return cluster_->client().remove(cluster_->jobs(job.name)); });
    } catch (const Error& error) {
      told(job, error.what());
      continue;
    }
    told(job, "");
  }
}

}  // namespace

std::unique_ptr<JobControl> kubernetes_control(std::shared_ptr<KubernetesConnection> cluster) {
  return std::make_unique<KubernetesControl>(std::move(cluster));
}

}  // namespace adaptdl::client
