#include "core/cluster/kubernetes/cluster_cache.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/cluster/kubernetes/trim.h"
#include "core/formats/json_fields.h"

namespace adaptdl::kubernetes {

namespace {

constexpr Seconds kExpectation{30};

std::string job_of(const Json& pod) {
  const std::string job = text_at_pointer(pod, "/metadata/labels/adaptdl~1job");
  return job.empty() ? "" : kube::metadata_text(pod, "namespace") + "/" + job;
}

std::string id_of(const Json& job) {
  return kube::metadata_text(job, "namespace") + "/" + kube::metadata_text(job, "name");
}

std::string version_of(const Json& object) {
  return kube::metadata_text(object, "resourceVersion");
}

}  // namespace

ClusterCache::ClusterCache(kube::Client& client, Listener listener, std::string accelerator_label,
                           const std::vector<std::string>& namespaces)
    : client_(client),
      listener_(std::move(listener)),
      accelerator_label_(std::move(accelerator_label)),
      namespaces_(namespaces),
      nodes_informer_(
          client, kube::kNodes, {.trim = trim_node},
          {.added = [this](const kube::Object& now) { node_changed(*now, false); },
           .updated = [this](const kube::Object&,
                             const kube::Object& now) { node_changed(*now, false); },
           .deleted = [this](const kube::Object& before) { node_changed(*before, true); }}),
      pods_informer_(
          client, kube::kPods, {.trim = trim_pod},
          {.added = [this](const kube::Object& now) { pod_changed(*now, false); },
           .updated = [this](const kube::Object&,
                             const kube::Object& now) { pod_changed(*now, false); },
           .deleted = [this](const kube::Object& before) { pod_changed(*before, true); }}) {
  for (const std::string& name : namespaces) jobs_informers_[name] = watch_jobs(name);
  if (namespaces.empty()) jobs_informers_[""] = watch_jobs("");
}

std::unique_ptr<kube::Informer> ClusterCache::watch_jobs(const std::string& name_space) {
  return std::make_unique<kube::Informer>(
      client_, kJobs.in(name_space), kube::InformerOptions{.trim = trim_job},
      kube::InformerCallbacks{.added =
                                  [this](const kube::Object& now) {
                                    job_changed(*now);
                                    listener_.capacity();
                                  },
                              .updated =
                                  [this](const kube::Object& before, const kube::Object& now) {
                                    job_changed(*now);
                                    std::string problem;
                                    if (concerns_allocator(read_job(*before, problem),
                                                           read_job(*now, problem))) {
                                      listener_.capacity();
                                    }
                                  },
                              .deleted =
                                  [this](const kube::Object& before) {
                                    job_changed(*before);
                                    listener_.capacity();
                                  }});
}

kube::Object ClusterCache::find_job(const std::string& id) const {
  const size_t slash = id.find('/');
  const std::string name_space = id.substr(0, slash);
  const bool all = jobs_informers_.contains("");
  const auto informer = jobs_informers_.find(all ? "" : name_space);
  if (informer == jobs_informers_.end()) return nullptr;
  return informer->second->find(name_space, id.substr(slash + 1));
}

bool ClusterCache::synced() const {
  return pods_informer_.synced() && nodes_informer_.synced() &&
         std::all_of(jobs_informers_.begin(), jobs_informers_.end(),
                     [](const auto& entry) { return entry.second->synced(); });
}

std::string ClusterCache::problem() const {
  std::vector<const kube::Informer*> informers = {&pods_informer_, &nodes_informer_};
  for (const auto& [name, informer] : jobs_informers_) informers.push_back(informer.get());
  for (const kube::Informer* informer : informers) {
    const std::string problem = informer->problem();
    if (!problem.empty()) return problem;
  }
  return "";
}

void ClusterCache::node_changed(const Json& object, bool gone) {
  NodeFacts facts = read_node(object, accelerator_label_);
  {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(facts.name);
    if (gone ? found == nodes_.end() : found != nodes_.end() && found->second == facts) return;
    if (gone || found == nodes_.end()) node_names_.reset();
    if (gone) {
      nodes_.erase(found);
    } else {
      nodes_[facts.name] = std::move(facts);
    }
  }
  listener_.capacity();
}

void ClusterCache::job_changed(const Json& object) {
  const std::string id = id_of(object), version = version_of(object);
  {
    const std::lock_guard lock(mutex_);
    const auto found = written_.find(id);
    // Versions cannot be compared, but we know those that we replaced.
    if (found != written_.end() && !found->second.older.contains(version)) written_.erase(found);
  }
  listener_.job(id);
}

// Whether a pod is a replica of a job that is scheduled here: others may have the label, too.
bool ClusterCache::is_replica(const Json& pod, const std::string& name_space) const {
  if (!namespaces_.empty() && std::ranges::count(namespaces_, name_space) == 0) return false;
  const std::string job = text_at_pointer(pod, "/metadata/labels/adaptdl~1job");
  return std::ranges::any_of(
      list_at(object_at(pod, "metadata"), "ownerReferences"), [&](const Json& owner) {
        return member(owner, "controller") == true && text_at(owner, "kind") == kJobKind &&
               text_at(owner, "name") == job;
      });
}

void ClusterCache::pod_changed(const Json& object, bool gone) {
  const std::string id = job_of(object);
  const kube::ObjectName name = kube::name_of(object);
  {
    const std::lock_guard lock(mutex_);
    KnownPod& pod = pods_[name];
    if (!pod.job.empty() && (gone || pod.job != id)) {
      pods_of_[pod.job].erase(name);
      if (pods_of_[pod.job].empty()) pods_of_.erase(pod.job);
    }
    if (gone) {
      pods_.erase(name);
    } else {
      pod.job = id;
      const std::string phase = text_at_pointer(object, "/status/phase");
      pod.takes_room = phase != "Succeeded" && phase != "Failed";
      pod.use.node = text_at_pointer(object, "/spec/nodeName");
      pod.use.request = pod_request(object.value("spec", Json()));
      pod.use.movable = is_replica(object, name.first) ||
                        !text_at_pointer(object, "/metadata/labels/adaptdl~1placeholder").empty();
      if (!id.empty()) {
        pod.facts = read_pod(object);
        pods_of_[id].insert(name);
      }
    }
    const auto expected = expected_.find(id);
    if (expected != expected_.end()) {
      expected->second.pods.erase(name.second);
      if (expected->second.pods.empty()) expected_.erase(expected);
    }
  }
  if (!id.empty()) listener_.job(id);
}

std::optional<KnownJob> ClusterCache::known(const std::string& id, const Json& object) const {
  const Json* newest = &object;
  const auto found = written_.find(id);
  if (found != written_.end() && found->second.older.contains(version_of(object))) {
    newest = &found->second.object;
  }
  try {
    KnownJob result;
    result.job = read_job(*newest, result.problem);
    return result;
  } catch (const Error& error) {
    log_error("{}: {}", id, error.what());
    return std::nullopt;
  }
}

std::optional<KnownJob> ClusterCache::job(const std::string& id) const {
  const kube::Object object = find_job(id);
  if (object == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return known(id, *object);
}

std::vector<KnownJob> ClusterCache::jobs() const {
  std::vector<KnownJob> result;
  for (const auto& [name, informer] : jobs_informers_) {
    for (const kube::Object& object : informer->all()) {
      const std::lock_guard lock(mutex_);
      if (auto job = known(id_of(*object), *object)) result.push_back(std::move(*job));
    }
  }
  return result;
}

std::vector<PodFacts> ClusterCache::pods(const JobObject& job) const {
  const std::lock_guard lock(mutex_);
  std::vector<PodFacts> result;
  const auto found = pods_of_.find(job.id());
  if (found == pods_of_.end()) return result;
  for (const kube::ObjectName& name : found->second) {
    const PodFacts& facts = pods_.at(name).facts;
    if (facts.owner_uid == job.uid) result.push_back(facts);
  }
  return result;
}

std::vector<PodUse> ClusterCache::uses() const {
  const std::lock_guard lock(mutex_);
  std::vector<PodUse> result;
  for (const auto& [name, pod] : pods_) {
    if (pod.takes_room && !pod.use.node.empty()) result.push_back(pod.use);
  }
  return result;
}

std::vector<NodeFacts> ClusterCache::nodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<NodeFacts> result;
  result.reserve(nodes_.size());
  for (const auto& [name, facts] : nodes_) result.push_back(facts);
  return result;
}

std::shared_ptr<const std::vector<std::string>> ClusterCache::node_names() const {
  const std::lock_guard lock(mutex_);
  if (!node_names_) {
    auto names = std::make_shared<std::vector<std::string>>();
    for (const auto& [name, facts] : nodes_) names->push_back(name);
    node_names_ = std::move(names);
  }
  return node_names_;
}

NodeFacts ClusterCache::node(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? NodeFacts{.name = name, .hostname = name} : found->second;
}

std::optional<std::string> ClusterCache::accelerator_of(
    const std::vector<std::string>& nodes) const {
  const std::lock_guard lock(mutex_);
  return kubernetes::accelerator_of(nodes, nodes_);
}

void ClusterCache::wrote(const std::string& id, const std::string& base, const std::string& made,
                         const Json& patch) {
  const kube::Object seen = find_job(id);
  const std::lock_guard lock(mutex_);
  const auto found = written_.find(id);
  const Json* before = seen.get();
  if (found != written_.end() && version_of(found->second.object) == base) {
    before = &found->second.object;
  }
  // The watch has reported it already, or a later one.
  if (before == nullptr || version_of(*before) != base) return void(written_.erase(id));
  Json now = *before;
  now["metadata"]["resourceVersion"] = made;
  now["status"].merge_patch(patch);
  Written& written = written_[id];
  written.older.insert(base);
  written.object = std::move(now);
}

void ClusterCache::expect(const std::string& id, const std::set<std::string>& pods) {
  const std::lock_guard lock(mutex_);
  expected_[id] = {
      pods, Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(kExpectation)};
}

void ClusterCache::forget_expected(const std::string& id) {
  const std::lock_guard lock(mutex_);
  expected_.erase(id);
}

bool ClusterCache::expects(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = expected_.find(id);
  return found != expected_.end() && Monotonic::now() < found->second.until;
}

}  // namespace adaptdl::kubernetes
