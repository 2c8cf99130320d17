#include "core/client/kubernetes/query.h"

#include <exception>
#include <map>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/client/kubernetes/events.h"
#include "core/client/kubernetes/job_objects.h"
#include "core/client/kubernetes/logs.h"
#include "core/client/kubernetes/view.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/cluster/kubernetes/trim.h"
#include "core/kube/informer.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kFirstLook{30};

class KubernetesQuery : public JobQuery {
 public:
  KubernetesQuery(std::shared_ptr<KubernetesConnection> cluster, JobScope scope)
      : shared_(std::move(cluster)), cluster_(*shared_), scope_(std::move(scope)) {}

  std::string title() const override { return fmt::format("{}, {}", cluster_.name(), where()); }
  std::string headline() override { return "cluster " + title(); }
  std::string nothing(bool) const override {
    return fmt::format("There are no jobs{} in {}.",
                       scope_.selector.empty() ? "" : " with these labels", where());
  }

  void each(Detail, const EachJob& take) override {
    for (const JobView& view : views_of(list_job_objects(cluster_, scope_))) take(view);
  }
  void each_unfinished(const EachJob& take) override {
    for (const JobView& view : views_of(list_job_objects(cluster_))) {
      if (!view.ended()) take(view);
    }
  }
  void each_run(const EachRun&) override {}

  void watch(Detail, const EachJob& job, const EachRun&,
             const std::function<void()>& round) override {
    list_job_objects(
        cluster_,
        scope_);  // throws if the cluster is unreachable; follow() would retry for ever
    // An error in a callback, such as a closed standard output, ends the watch. A failure of the
    // watch itself would be retried.
    Cancellation over;
    std::exception_ptr failure;
    const auto tell = [&](const auto& act) {
      if (failure) return;  // from an earlier event of the same answer
      try {
        act();
      } catch (...) {
        failure = std::current_exception();
        over.cancel();
      }
    };
    kube::FollowCallbacks callbacks;
    callbacks.listed = [&](const kube::ObjectList& all) {
      tell([&] {
        for (const JobView& view : views_of(all.items)) job(view);
        round();
      });
    };
    callbacks.happened = [&](const kube::WatchEvent& event) {
      if (event.type == kube::WatchEvent::Type::deleted) return;
      tell([&] {
        job(kubernetes_view(event.object));
        round();
      });
    };
    callbacks.stuck = [](const std::string& why) {
      if (!why.empty()) talk("adaptdl: " + why + "; retrying");
    };
    kube::follow(cluster_.client(), job_collection(cluster_, scope_),
                 {.labels = scope_.selector, .trim = kubernetes::trim_job}, callbacks, over);
    std::rethrow_exception(failure);
  }

  JobView find(const std::string& name) override {
    return kubernetes_view(find_job_object(cluster_, name));
  }

  // Reads from a watch of this job, which the first call starts.
  std::optional<JobView> look(const std::string& name) override {
    auto found = watched_.find(name);
    if (found == watched_.end()) {
      cluster_.reach([&] { return cluster_.client().find(cluster_.jobs(name)); });
      kube::InformerOptions which{.fields = "metadata.name=" + name, .trim = kubernetes::trim_job};
      found = watched_
                  .emplace(name, std::make_unique<kube::Informer>(cluster_.client(),
                                                                  cluster_.jobs(), which))
                  .first;
      if (!found->second->wait_synced(kFirstLook)) {
        fail("cluster {}: cannot watch job {}: {}", cluster_.name(), name,
             found->second->problem());
      }
    }
    const kube::Object job = found->second->find(cluster_.name_space(), name);
    return job ? std::optional(kubernetes_view(*job)) : std::nullopt;
  }

  bool is_run(const std::string& name) override {
    find(name);
    return false;
  }

  std::vector<std::string> names(const std::string& prefix, int most) override {
    return job_names(prefix, most);
  }
  std::vector<std::string> job_names(const std::string& prefix, int most) override {
    return client::job_names(cluster_, prefix, most);
  }
  JobDetails details(const JobView& job) override;

  std::unique_ptr<EventReader> events(const std::string& job, bool follow) override {
    return read_kubernetes_events(cluster_, job, follow);
  }

  // A job's status has its newest values only.
  std::unique_ptr<CurveReader> curve(const std::string&) override { return nullptr; }

  std::unique_ptr<LogReader> logs(const LogOptions& options) override {
    const std::string uid = kube::metadata_text(find_job_object(cluster_, options.name), "uid");
    return read_kubernetes_logs(cluster_, uid, options, [this, name = options.name] {
      const auto job = look(name);
      return job && !job->ended();
    });
  }

 private:
  std::string where() const {
    return scope_.all_namespaces ? "any namespace" : "namespace " + cluster_.name_space();
  }

  const std::shared_ptr<KubernetesConnection> shared_;
  KubernetesConnection& cluster_;
  const JobScope scope_;
  std::map<std::string, std::unique_ptr<kube::Informer>> watched_;
};

JobDetails KubernetesQuery::details(const JobView& job) {
  const Json whole = find_job_object(cluster_, job.name);
  const std::string labels = fmt::format("{}={}", kubernetes::kLabelJob, job.name);
  const std::vector<Json> pods = cluster_.reach(
      [&] { return cluster_.client().list(cluster_.pods(), {.labels = labels}).items; });
  const Json spec = whole.value("spec", Json()), status = whole.value("status", Json::object());
  const Json hints = status.value("train", Json());
  JobDetails details;
  details.lines = {{"Service", short_duration(job.service_s) + " of GPUs or replicas"}};
  details.tables = {conditions_table(whole, wall_now_s()), pods_table(pods)};
  details.sections = {{"Spec", spec}, {"Hints", hints}};
  details.record = {{"spec", spec},
                    {"hints", hints},
                    {"group", status.value("group", Json())},
                    {"conditions", status.value("conditions", Json::array())},
                    {"pods", Json::array()}};
  for (const Json& pod : pods) {
    const kubernetes::PodFacts facts = kubernetes::read_pod(pod);
    details.record["pods"].push_back({{"name", facts.name},
                                      {"group", facts.group},
                                      {"rank", facts.rank},
                                      {"node", facts.node},
                                      {"phase", pod["status"].value("phase", Json())},
                                      {"ready", facts.ready}});
  }
  details.events = list_kubernetes_events(cluster_, job.name);
  return details;
}

}  // namespace

std::unique_ptr<JobQuery> kubernetes_query(std::shared_ptr<KubernetesConnection> cluster,
                                           const JobScope& scope) {
  return std::make_unique<KubernetesQuery>(std::move(cluster), scope);
}

}  // namespace adaptdl::client
