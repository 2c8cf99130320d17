// What users put into a cluster, as the operator reads it: a list with jobs, pods, nodes and
// events, whatever their fields contain, and however deep.

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/cluster/kubernetes/jobs/pod_trouble.h"
#include "core/cluster/kubernetes/jobs/reconcile.h"
#include "core/cluster/kubernetes/nodes/capacity.h"
#include "core/cluster/kubernetes/nodes/node_affinity.h"
#include "core/cluster/kubernetes/scheduler_view.h"
#include "core/cluster/kubernetes/trim.h"
#include "core/formats/json_fields.h"
#include "core/kube/answer.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

constexpr double kNow = 1767225600;

struct Objects {
  std::vector<JobObject> jobs;
  std::vector<std::string> problems;
  std::vector<PodFacts> pods;
  std::vector<PodUse> uses;
  std::vector<NodeFacts> nodes;
  std::vector<Json> events, pod_specs;
};

void add_pod(Json pod, Objects& objects) {
  const Resources request = pod_request(object_at(pod, "spec"));
  const PodFacts whole = read_pod(pod);
  trim_pod(pod);
  objects.pods.push_back(read_pod(pod));
  ADAPTDL_CHECK(objects.pods.back().end == whole.end && objects.pods.back().group == whole.group);
  ADAPTDL_CHECK(pod_request(object_at(pod, "spec")) == request);
  for (const auto& [name, amount] : request) ADAPTDL_CHECK(amount >= 0);
  objects.uses.push_back({objects.pods.back().node, false, request});
}

void add_node(Json node, Objects& objects) {
  const NodeFacts whole = read_node(node);
  trim_node(node);
  objects.nodes.push_back(read_node(node));
  ADAPTDL_CHECK(objects.nodes.back() == whole);
}

void add_job(Json job, Objects& objects) {
  trim_job(job);
  std::string problem;
  try {
    objects.jobs.push_back(read_job(job, problem));
    objects.problems.push_back(problem);
  } catch (const Error&) {
    return;  // no object of an API server
  }
  const JobStatus& status = objects.jobs.back().status;
  ADAPTDL_CHECK(status_patch(status, status).is_null());
}

Objects read(const kube::ListAnswer& list) {
  Objects objects;
  for (const std::string_view text : list.items) {
    const Json item = kube::parse_answer(text, "fuzz", kube::ObjectsAre::whole);
    const std::string kind = text_at(item, "kind");
    if (kind == "AdaptDLJob") add_job(item, objects);
    if (kind == "Pod") add_pod(item, objects);
    if (kind == "Node") add_node(item, objects);
    if (kind == "Event") objects.events.push_back(item);
  }
  return objects;
}

void check(const JobObject& job, const JobDecision& decision) {
  ADAPTDL_CHECK(decision.create.empty() || decision.status.group);
  std::set<int> ranks;
  for (const PodPlace& place : decision.create) {
    ADAPTDL_CHECK(place.rank >= 0 && ranks.insert(place.rank).second);
  }
  if (job.status.ended()) ADAPTDL_CHECK(decision.status.phase == job.status.phase);
  if (job.status.group) ADAPTDL_CHECK(decision.status.group >= job.status.group);
  const Json patch = status_patch(job.status, decision.status);
  dump_json(patch);
}

void make_pods(const JobObject& job, const JobDecision& decision) {
  PodSettings settings;
  settings.keys = [](const JobObject&) { return JobKeys{"token", "links"}; };
  try {
    for (const PodPlace& place : decision.create) {
      dump_json(make_pod(job, decision.status, place, {place.node, ""}, settings));
    }
  } catch (const Error&) {
    // a template without a container
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Objects objects;
  try {
    objects = read(kube::parse_list(fuzz_text(data, size), "fuzz"));
  } catch (const Error&) {
    return 0;
  }
  std::vector<std::string> names;
  for (const NodeFacts& node : objects.nodes) names.push_back(node.name);
  std::sort(names.begin(), names.end());
  for (PodFacts& pod : objects.pods) {
    if (waits_silently(pod, kNow - pod.created_s)) read_pod_events(objects.events, pod);
  }
  for (size_t i = 0; i < objects.jobs.size(); ++i) {
    const JobObject& job = objects.jobs[i];
    const ClusterFacts facts{kNow, names};
    const JobDecision decision = reconcile(job, objects.problems[i], objects.pods, facts);
    check(job, decision);
    make_pods(job, decision);
    for (const Refusal why : {Refusal::invalid, Refusal::quota}) {
      if (job.status.ended()) break;
      check(job, pods_refused(job, objects.pods, decision.create, "refused", why, facts));
    }
    JobStatus allocated = job.status;
    set_allocation(allocated, names, "why", kNow);
    concerns_allocator(job, objects.jobs.front());
    const Json& spec = object_at(*job.pod_template, "spec");
    for (const NodeFacts& node : objects.nodes) {
      tolerates(spec, node.taints);
      meets_affinity(required_affinity(spec), node);
    }
    affinity_text(required_affinity(spec));
  }
  const SchedulerView view =
      scheduler_view(objects.nodes, objects.uses, objects.jobs, {}, kNow, 100);
  for (const ClusterNode& node : view.nodes) {
    for (const auto& [name, amount] : node.free_for_jobs) ADAPTDL_CHECK(amount >= 0);
  }
  for (const ClusterJob& job : view.jobs) {
    ADAPTDL_CHECK(job.min_replicas >= 0 && job.max_replicas >= std::max(1, job.min_replicas));
    for (const auto& [name, amount] : job.request) ADAPTDL_CHECK(amount >= 0);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string job = R"({"kind":"AdaptDLJob","metadata":{"namespace":"a","name":"j","uid":"u",
"creationTimestamp":"2026-01-01T00:00:00Z","generation":2},"spec":{"minReplicas":1,"maxReplicas":2,
"preemptible":true,"accelerators":["A*","[b-d]?"],"liveRescale":false,"backoffLimit":3,"ttlSecondsAfterFinished":9,"template":{
"spec":{"nodeSelector":{"zone":"a"},"tolerations":[{"key":"k","operator":"Exists"}],"affinity":{
"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{
"matchExpressions":[{"key":"zone","operator":"Gt","values":["1"]}]}]}}},"containers":[{"name":"m",
"image":"i","resources":{"requests":{"cpu":"500m"},"limits":{"nvidia.com/gpu":1}}}]}}},)";
  const std::string running = R"("status":{"phase":"Running","group":3,"allocation":["n1","n1"],
"replicas":2,"failures":1,"startTime":"2026-01-01T00:00:00Z","groupStartTime":
"2026-01-01T00:00:00Z","attainedService":7.5,"train":{"maxProfiledReplicas":2},"conditions":[{
"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}})";
  const auto pod = [](const std::string& rank, const std::string& status) {
    return R"({"kind":"Pod","metadata":{"name":"p","uid":"v","creationTimestamp":
"2026-01-01T00:00:00Z","labels":{"adaptdl":"true","adaptdl/job":"j"},"annotations":{
"adaptdl/group":"3","adaptdl/rank":")" +
           rank + R"(","adaptdl/replicas":"2","adaptdl/node":"n1"},"ownerReferences":[{
"controller":true,"uid":"u"}]},"spec":{"containers":[{"name":"m","resources":{"requests":{
"cpu":"1"}}}]},"status":)" +
           status + "}";
  };
  const std::string good = R"({"phase":"Running","conditions":[{"type":"Ready","status":"True"},
{"type":"PodScheduled","status":"True"}]})";
  const std::string ended = R"({"phase":"Failed","containerStatuses":[{"name":"m","state":{
"terminated":{"exitCode":1,"reason":"Error","message":"x","finishedAt":"2026-01-01T00:01:00Z"}}}]})";
  const std::string node = R"({"kind":"Node","metadata":{"name":"n1","labels":{"zone":"a"}},"spec":{
"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"4","memory":"8Gi",
"pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}})";
  const std::string event = R"({"kind":"Event","type":"Warning","reason":"FailedMount",
"message":"m","lastTimestamp":"2026-01-01T00:00:00Z"})";
  const auto list = [](const std::vector<std::string>& items) {
    std::string text = R"({"items":[)";
    for (const std::string& item : items) text += (text.ends_with('[') ? "" : ",") + item;
    return text + "]}";
  };
  const std::string pending = R"("status":{"phase":"Pending","allocation":["n1"]}})";
  const std::string deep =
      job + R"("status":{"x":)" + std::string(70, '[') + std::string(70, ']') + "}}";
  return {{list({job + running, pod("0", good), pod("1", good), node}),
           list({job + running, pod("0", ended), pod("1", good), node, event}),
           list({job + pending, node}), list({deep, node})},
          {"\"status\":",
           "\"spec\":",
           "\"metadata\":",
           "\"group\":9223372036854775807,",
           "\"failures\":2147483647,",
           "\"rescales\":2147483647,",
           "\"liveRescale\":true,",
           "\"suspend\":true,",
           "\"cancel\":true,",
           "\"phase\":\"Stopping\"",
           "\"phase\":\"Starting\"",
           "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",",
           "\"unschedulable\":true",
           "\"waiting\":{\"reason\":\"ErrImagePull\"}",
           "OOMKilled",
           "Evicted",
           "OutOfcpu",
           "DisruptionTarget",
           "9999-12-31T23:59:59Z",
           "1e308",
           "9223372036854775807",
           "\"1Ei\"",
           "\"-1\"",
           "null",
           "[]",
           "{}",
           ","}};
}
