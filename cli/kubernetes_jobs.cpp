#include "cli/kubernetes_jobs.h"

#include <algorithm>
#include <exception>
#include <map>

#include "cli/jobs.h"
#include "cli/known_clusters.h"
#include "cli/kubernetes_cluster.h"
#include "cli/kubernetes_copy.h"
#include "cli/kubernetes_events.h"
#include "cli/kubernetes_exec.h"
#include "cli/kubernetes_logs.h"
#include "cli/kubernetes_storage.h"
#include "cli/kubernetes_submit.h"
#include "cli/kubernetes_view.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "cli/yaml_text.h"
#include "core/base/error.h"
#include "core/cluster/kubernetes/pod_object.h"
#include "core/kube/informer.h"

namespace adaptdl::cli {
namespace {

constexpr Seconds kFirstLook{30};
constexpr int kNames = 2000;  // looked through for a suggestion

// What no row shows, and is most of a job's size.
void trim(Json& object) {
  const auto metadata = object.find("metadata");
  if (metadata != object.end() && metadata->is_object()) {
    metadata->erase("managedFields");
    metadata->erase("annotations");
  }
}

class KubernetesJobs : public ClusterJobs {
 public:
  KubernetesJobs(const ClusterChoice& choice, bool verbose, JobScope scope)
      : cluster_(choice, verbose), scope_(std::move(scope)) {}

  std::string title() const override { return fmt::format("{}, {}", cluster_.name(), where()); }
  std::string headline() override { return "cluster " + title(); }
  std::string nothing(bool) const override {
    return fmt::format("There are no jobs{} in {}.",
                       scope_.selector.empty() ? "" : " with these labels", where());
  }

  void each(Detail, const EachJob& take) override {
    for (const JobView& view : views(list(scope_).items)) take(view);
  }
  void each_unfinished(const EachJob& take) override {
    for (const JobView& view : views(list().items)) {
      if (!view.ended()) take(view);
    }
  }
  void each_run(const EachRun&) override {}

  void watch(Detail, const EachJob& job, const EachRun&,
             const std::function<void()>& round) override {
    list(scope_);  // throws where it cannot be reached; what follows would try for ever
    // What goes wrong here, such as that nobody reads our output any more, is no failure of the
    // watch, which would be tried again: it ends it.
    Cancellation over;
    std::exception_ptr failure;
    const auto tell = [&](const auto& act) {
      if (failure) return;  // of the same piece of an answer
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
        for (const JobView& view : views(all.items)) job(view);
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
      if (!why.empty()) talk("adaptdl: " + why + "; trying again");
    };
    kube::follow(cluster_.client(), collection(scope_), {.labels = scope_.selector, .trim = trim},
                 callbacks, over);
    std::rethrow_exception(failure);
  }

  JobView find(const std::string& name) override { return kubernetes_view(object(name)); }

  // From a watch of this one job, begun by the first look.
  std::optional<JobView> look(const std::string& name) override {
    auto found = watched_.find(name);
    if (found == watched_.end()) {
      cluster_.reach([&] { return cluster_.client().find(cluster_.jobs(name)); });
      kube::InformerOptions which{.fields = "metadata.name=" + name, .trim = trim};
      found = watched_
                  .emplace(name, std::make_unique<kube::Informer>(cluster_.client(),
                                                                  cluster_.jobs(), which))
                  .first;
      if (!found->second->wait_synced(kFirstLook)) {
        fail("cluster {}: job {} cannot be watched: {}", cluster_.name(), name,
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

  std::vector<std::string> names(const std::string& prefix, int most) override;
  std::unique_ptr<JobRequest> request(const Arguments& arguments) override {
    return kubernetes_job_request(cluster_, arguments);
  }
  JobDetails details(const JobView& job) override;

  std::unique_ptr<EventReader> events(const std::string& job, bool follow) override {
    return read_kubernetes_events(cluster_, job, follow);
  }

  std::unique_ptr<LogReader> logs(const LogOptions& options) override {
    const std::string uid = kube::metadata_text(object(options.name), "uid");
    return read_kubernetes_logs(cluster_, uid, options, [this, name = options.name] {
      const auto job = look(name);
      return job && !job->ended();
    });
  }

  int exec(const ExecRequest& request) override {
    return exec_in_pod(cluster_, object(request.job), request);
  }
  CopyResult copy_from(const std::string& job, const std::string& path,
                       const std::string& to) override {
    const std::string place = storage_path(path);
    return copy_from_storage(cluster_, object(job), place, to);
  }
  CopyResult copy_to(const std::string& from, const std::string& job,
                     const std::string& path) override {
    const std::string place = storage_path(path);
    return copy_to_storage(cluster_, from, object(job), place);
  }

  Json suspend(const std::string& job, bool suspended) override {
    if (suspended) {
      const Json found = object(job);
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

  void remove(const std::vector<JobView>& jobs, bool force,
              const std::function<void(const JobView&, const std::string&)>& told) override;

 private:
  std::string where() const {
    return scope_.all_namespaces ? "any namespace" : "namespace " + cluster_.name_space();
  }
  kube::Resource collection(const JobScope& scope) const {
    return scope.all_namespaces ? kAdaptDLJobs : cluster_.jobs();
  }

  kube::ObjectList list(const JobScope& scope = {}) {
    kube::ObjectList all = cluster_.reach([&] {
      return cluster_.client().list(collection(scope), {.labels = scope.selector, .trim = trim});
    });
    remember_cluster(cluster_.client().config());
    return all;
  }

  // By submission; what is no job by somebody's mistake is left out.
  static std::vector<JobView> views(const std::vector<Json>& objects) {
    std::vector<JobView> result;
    for (const Json& object : objects) result.push_back(kubernetes_view(object));
    std::sort(result.begin(), result.end(), [](const JobView& a, const JobView& b) {
      return std::tie(a.submitted_s, a.name) < std::tie(b.submitted_s, b.name);
    });
    return result;
  }

  Json object(const std::string& name) {
    auto found = cluster_.reach([&] { return cluster_.client().find(cluster_.jobs(name)); });
    if (found) return std::move(*found);
    const std::vector<std::string> known = names("", kNames);  // throws if the kind is not known
    throw Error(
        fmt::format("there is no job {} in namespace {}.{}", name, cluster_.name_space(),
                    did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end()))));
  }

  // Changes the specification of a job that has not ended, and returns its phase. `key`: one that
  // the cluster's definition of jobs has to know, since it drops others without a word.
  Json change(const std::string& name, const char* key, const Json& spec) {
    const JobView before = find(name);
    if (before.ended()) fail("{} has ended: {}", name, before.phase);
    const Json after = cluster_.reach([&] {
      return cluster_.client().patch(cluster_.jobs(name), kube::PatchKind::merge, {{"spec", spec}});
    });
    if (after["spec"].value(key, Json()) != spec[key]) {
      fail("cluster {}: its AdaptDLJobs have no spec.{}: `adaptdl upgrade` renews their definition",
           cluster_.name(), key);
    }
    return kubernetes_view(after).phase;
  }

  KubernetesCluster cluster_;
  const JobScope scope_;
  std::map<std::string, std::unique_ptr<kube::Informer>> watched_;
};

std::vector<std::string> KubernetesJobs::names(const std::string& prefix, int most) {
  std::vector<JobView> all = views(list().items);
  std::vector<std::string> names;
  for (auto job = all.rbegin(); job != all.rend() && static_cast<int>(names.size()) < most; ++job) {
    if (job->name.starts_with(prefix)) names.push_back(std::move(job->name));
  }
  return names;
}

JobDetails KubernetesJobs::details(const JobView& job) {
  const Json whole = object(job.name);
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

void KubernetesJobs::remove(const std::vector<JobView>& jobs, bool force,
                            const std::function<void(const JobView&, const std::string&)>& told) {
  for (const JobView& job : jobs) {
    try {
      if (!job.ended() && !force) {
        fail("{} has not ended; --force cancels it first", job.name);
      }
      cluster_.reach([&] { return cluster_.client().remove(cluster_.jobs(job.name)); });
    } catch (const Error& error) {
      told(job, error.what());
      continue;
    }
    told(job, "");
  }
}

}  // namespace

std::unique_ptr<ClusterJobs> open_kubernetes_jobs(const ClusterChoice& choice, bool verbose,
                                                  const JobScope& scope) {
  return std::make_unique<KubernetesJobs>(choice, verbose, scope);
}

}  // namespace adaptdl::cli
