#include "core/client/kubernetes/events.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "core/client/kubernetes/view.h"
#include "core/kube/informer.h"

namespace adaptdl::client {
namespace {

// Not events.k8s.io, which cannot select events by the object they are about.
const kube::Resource kCoreEvents{"", "v1", "events", "", "", ""};

// For all jobs: events of the jobs themselves. For one job: everything, since no selector covers
// both its events and those of its pods.
std::string selector(const std::string& job) {
  return job.empty() ? "involvedObject.kind=AdaptDLJob" : "";
}

class Events {
 public:
  explicit Events(std::string job) : job_(std::move(job)) {}

  // Reports an event again only if it happened again.
  void take(const Json& object) {
    auto event = kubernetes_event(object);
    if (!event || (!job_.empty() && event->job != job_)) return;
    int64_t& before = told_[kube::metadata_text(object, "uid")];
    if (event->id <= before) return;
    before = event->id;
    new_.push_back(std::move(*event));
  }

  std::vector<JobEvent> take_new() {
    std::vector<JobEvent> events = std::move(new_);
    new_.clear();
    std::stable_sort(events.begin(), events.end(),
                     [](const JobEvent& a, const JobEvent& b) { return a.id < b.id; });
    return events;
  }

 private:
  const std::string job_;
  std::map<std::string, int64_t> told_;  // by uid
  std::vector<JobEvent> new_;
};

class KubernetesEvents : public EventReader {
 public:
  KubernetesEvents(KubernetesConnection& cluster, const std::string& job, bool follow)
      : cluster_(cluster), job_(job), events_(job) {
    kube::ObjectList list = cluster.reach([&] {
      return cluster.client().list(kCoreEvents.in(cluster.name_space()), {.fields = selector(job)});
    });
    for (const Json& object : list.items) events_.take(object);
    if (follow) thread_ = std::thread([this] { watch(); });
  }

  ~KubernetesEvents() override {
    cancel_.cancel();
    if (thread_.joinable()) thread_.join();
  }

  std::vector<JobEvent> next() override {
    const std::lock_guard lock(mutex_);
    return events_.take_new();
  }

 private:
  void watch() {
    kube::FollowCallbacks callbacks;
    callbacks.listed = [this](const kube::ObjectList& list) {
      const std::lock_guard lock(mutex_);
      for (const Json& object : list.items) events_.take(object);
    };
    callbacks.happened = [this](const kube::WatchEvent& event) {
      const std::lock_guard lock(mutex_);
      if (event.type != kube::WatchEvent::Type::deleted) events_.take(event.object);
    };
    callbacks.stuck = [](const std::string&) {};  // the watch continues when it can
    kube::follow(cluster_.client(), kCoreEvents.in(cluster_.name_space()),
                 {.fields = selector(job_)}, callbacks, cancel_);
  }

  KubernetesConnection& cluster_;
  const std::string job_;
  Cancellation cancel_;
  std::mutex mutex_;  // of events_
  Events events_;
  std::thread thread_;
};

}  // namespace

std::vector<JobEvent> list_kubernetes_events(KubernetesConnection& cluster,
                                             const std::string& job) {
  return read_kubernetes_events(cluster, job, false)->next();
}

std::unique_ptr<EventReader> read_kubernetes_events(KubernetesConnection& cluster,
                                                    const std::string& job, bool follow) {
  return std::make_unique<KubernetesEvents>(cluster, job, follow);
}

}  // namespace adaptdl::client
