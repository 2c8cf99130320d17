#include "core/cluster/kubernetes/scheduler_view.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/policy/policy.h"
#include "core/sched/allocator.h"
#include "core/sched/policy_input.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace snapshot_test {

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

constexpr double kWall = 1'769'846'400;  // when the sample job was made

NodeFacts node(const char* name, Json taints = Json::array()) {
  NodeFacts result;
  result.name = result.hostname = name;
  result.allocatable = {{"cpu", 8000}, {"memory", 1000}, {"pods", 110}};
  result.ready = true;
  result.taints = std::move(taints);
  return result;
}

}  // namespace

TEST_CASE("what others take is not ours to give") {
  const auto view = scheduler_view({node("n1"), node("n2")},
                                   {{"n1", false, {{"cpu", 1500}, {"pods", 1}}},
                                    {"n1", true, {{"cpu", 4000}, {"pods", 1}}},
                                    {"n2", false, {{"cpu", 9000}, {"other", 5}}},
                                    {"gone", false, {{"cpu", 1}}}},
                                   {}, PodSettings{}, kWall, 0);
  REQUIRE(view.nodes.size() == 2);
  CHECK(view.nodes[0].free_for_jobs == Resources{{"cpu", 6500}, {"memory", 1000}, {"pods", 109}});
  CHECK(view.nodes[1].free_for_jobs.at("cpu") == 0);
}

TEST_CASE("while a node has lost its devices, its running jobs keep them and stay as they are") {
  constexpr const char* kGpu = "nvidia.com/gpu";
  NodeFacts lost = node("n1"), whole = node("n2");
  lost.allocatable[kGpu] = 0;
  whole.allocatable[kGpu] = 4;
  std::vector<JobObject> jobs;
  const auto add = [&](const char* name, const char* phase, std::vector<std::string> nodes,
                       const Json& gpus) {
    JobObject job = read_sample();
    job.name = name;
    job.status.phase = phase;
    job.status.allocation = std::move(nodes);
    Json changed = *job.pod_template;
    changed["spec"]["containers"][0]["resources"] = {{"limits", {{kGpu, gpus}}}};
    job.pod_template = std::make_shared<const Json>(changed);
    jobs.push_back(std::move(job));
  };
  add("here", "Running", {"n1", "n1", "n2"}, 1);
  add("large", "Running", {"n1"}, 3);
  add("without", "Running", {"n1"}, 0);
  add("there", "Running", {"n2"}, 1);
  add("starts", "Starting", {"n1"}, 1);
  add("waits", "Pending", {}, 1);
  const auto view =
      scheduler_view({lost, whole}, {{"n2", false, {{kGpu, 1}}}}, jobs, PodSettings{}, kWall, 0);
  CHECK(view.nodes[0].free_for_jobs.at(kGpu) == 5);
  CHECK(view.nodes[1].free_for_jobs.at(kGpu) == 3);
  for (const ClusterJob& job : view.jobs) {
    CAPTURE(job.name);
    CHECK(job.preemptible == (job.name != "team-a/here" && job.name != "team-a/large"));
  }

  // Absurd amounts overflow nothing, and a node that others have filled has lost nothing.
  jobs.clear();
  for (const char* name : {"a", "b"}) add(name, "Running", {"n1", "n1"}, INT64_MAX);
  add("c", "Running", {"n2"}, 1);
  const auto odd =
      scheduler_view({lost, whole}, {{"n2", false, {{kGpu, 4}}}}, jobs, PodSettings{}, kWall, 0);
  CHECK(odd.nodes[0].free_for_jobs.at(kGpu) > 0);
  CHECK(odd.nodes[1].free_for_jobs.at(kGpu) == 0);
  CHECK(odd.jobs.back().preemptible);
}

TEST_CASE("every policy leaves such a job alone, and gives its devices to nobody else") {
  constexpr const char* kGpu = "nvidia.com/gpu";
  NodeFacts lost = node("n1");
  lost.allocatable[kGpu] = 0;
  std::vector<JobObject> jobs;
  for (const char* name : {"a", "b"}) {
    JobObject job = read_sample({{"maxReplicas", 4}});
    job.name = name;
    Json changed = *job.pod_template;
    changed["spec"]["containers"][0]["resources"] = {{"limits", {{kGpu, 1}}}};
    job.pod_template = std::make_shared<const Json>(changed);
    jobs.push_back(std::move(job));
  }
  jobs[0].status.phase = "Running";
  jobs[0].status.allocation = {"n1"};
  const auto view = scheduler_view({lost}, {}, jobs, PodSettings{}, kWall, 0);
  std::vector<std::string> problems;
  const Snapshot snapshot = policy_input(view.nodes, view.jobs, 0, problems);
  CHECK(problems.empty());
  for (const PolicyInfo& info : policies()) {
    CAPTURE(std::string(info.name));
    const Decision decision = make_policy(info.name)->decide(snapshot, 1, SearchBudget{});
    REQUIRE(decision.jobs.size() == 2);
    for (size_t j = 0; j < 2; ++j) {
      const bool holds = snapshot.jobs[j].name == "team-a/a";
      CHECK(decision.jobs[j].nodes == (holds ? NodeList{0} : NodeList{}));
    }
  }
}

TEST_CASE("jobs that have ended tell how long others like them take") {
  JobObject ended = read_sample(Json::object()), other = read_sample(Json::object());
  ended.name = "digits-aaaaa";
  ended.status.phase = "Succeeded";
  ended.status.completed_s = kWall;
  ended.status.attained_service = 90;
  JobObject alike = read_sample(Json::object());
  alike.name = "digits-bbbbb";
  other.name = "chars-aaaaa";
  const auto view =
      scheduler_view({node("n1")}, {}, {ended, alike, other}, PodSettings{}, kWall, 0);
  REQUIRE(view.jobs.size() == 2);
  for (const ClusterJob& job : view.jobs) {
    const bool known = job.name.ends_with("/digits-bbbbb");
    CHECK(job.length_rank == (known ? std::optional(90.0) : std::nullopt));
  }
}

TEST_CASE("nodes that are away or about to go are not offered") {
  NodeFacts away = node("away"), leaving = node("leaving");
  away.ready = false;
  leaving.leaving = true;
  const auto view = scheduler_view({away, leaving, node("n1")}, {}, {}, PodSettings{}, kWall, 0);
  REQUIRE(view.nodes.size() == 1);
  CHECK(view.nodes[0].name == "n1");
}

TEST_CASE("a job") {
  JobObject job = read_sample(Json::parse(R"({"minReplicas": 1, "maxReplicas": 3})"),
                              Json::parse(R"({"phase": "Running", "allocation": ["n1"],
                                              "rescales": 2,
                                              "train": {"initBatchSize": 128,
                                                        "maxBatchSize": 256}})"));
  const auto view = scheduler_view({node("n1")}, {}, {job}, PodSettings{}, kWall + 60, 1000);
  REQUIRE(view.jobs.size() == 1);
  const ClusterJob& seen = view.jobs[0];
  CHECK(seen.name == "team-a/digits");
  CHECK(seen.submitted_s == 940);
  CHECK(seen.phase == JobPhase::running);
  CHECK(seen.nodes == std::vector<std::string>{"n1"});
  CHECK(seen.restarts == 2);
  CHECK(seen.max_replicas == 3);
  CHECK(seen.request == Resources{{"cpu", 500}, {"pods", 1}});
  REQUIRE(seen.hints.batch);
  CHECK(seen.hints.batch->initial == 128);
  CHECK_FALSE(seen.hints.rescale_cost_s);  // policies assume one
}

TEST_CASE("a start costs a live job what its pods took, and the time to load") {
  const auto costs = [](const char* status) {
    const JobObject job = read_sample({{"liveRescale", true}}, Json::parse(status));
    const auto view = scheduler_view({node("n1")}, {}, {job}, PodSettings{}, kWall, 0);
    return view.jobs.at(0).hints;
  };
  CHECK(costs("{}").start_cost_s == 30);
  // The launcher tells only how long the others pause.
  const JobHints known = costs(R"({"phase": "Running", "allocation": ["n1"],
      "groupStartTime": "2026-01-31T07:59:00Z", "train": {"rescaleCost": 0.05},
      "conditions": [{"type": "Ready", "status": "True",
                      "lastTransitionTime": "2026-01-31T07:59:07Z"}]})");
  CHECK(known.rescale_cost_s == 0.05);
  CHECK(known.start_cost_s == 17);
  // Its pods do not run now.
  CHECK(costs(R"({"phase": "Starting", "allocation": ["n1"],
      "groupStartTime": "2026-01-31T07:59:00Z",
      "conditions": [{"type": "Ready", "status": "False",
                      "lastTransitionTime": "2026-01-31T07:59:07Z"}]})")
            .start_cost_s == 30);
  CHECK_FALSE(scheduler_view({node("n1")}, {}, {read_sample()}, PodSettings{}, kWall, 0)
                  .jobs.at(0)
                  .hints.start_cost_s);
}

TEST_CASE("service is counted in GPUs, of jobs without GPUs in replicas") {
  const auto service_s = [](const Json& limits) {
    JobObject job = read_sample();
    Json changed = *job.pod_template;
    changed["spec"]["containers"][0]["resources"] = {{"limits", limits}};
    job.pod_template = std::make_shared<const Json>(changed);
    job.status.attained_service = 100;
    job.status.replicas = 2;
    job.status.held_since_s = kWall - 60;
    const auto view = scheduler_view({node("n1")}, {}, {job}, PodSettings{}, kWall, 0);
    return view.jobs.at(0).attained_service;
  };
  CHECK(service_s({{"cpu", 4}}) == 100 + 2 * 60);
  CHECK(service_s({{"nvidia.com/gpu", 8}}) == 100 + 8 * 2 * 60);
  CHECK(service_s({{"google.com/tpu", 4}}) == 100 + 4 * 2 * 60);
  CHECK(service_s({{"nvidia.com/gpu", 0}}) == 100 + 2 * 60);
  // Of a share of a GPU also its memory is requested.
  CHECK(service_s({{"nvidia.com/gpu", 1}, {"nvidia.com/gpumem", 8000}}) == 100 + 2 * 60);
}

TEST_CASE("a job has measured itself on kinds of accelerators") {
  NodeFacts fast = node("fast"), slow = node("slow");
  fast.accelerator = "A100";
  slow.accelerator = "T4";
  const JobObject job = read_sample(Json::object(), Json::parse(R"({"train": {
      "initBatchSize": 128, "accelerator": "T4",
      "accelerators": {"T4": {"maxLocalBsz": 16, "perfParams": {
          "alpha_c": 1, "beta_c": 2, "alpha_n": 0, "beta_n": 0, "alpha_r": 0, "beta_r": 0,
          "gamma": 1}}}}})"));
  const auto view = scheduler_view({fast, slow}, {}, {job}, PodSettings{}, kWall, 0);
  CHECK(view.nodes[0].accelerator == "A100");
  CHECK(view.nodes[1].accelerator == "T4");
  const JobHints& hints = view.jobs.at(0).hints;
  REQUIRE(hints.kinds.contains("T4"));
  CHECK(hints.kinds.at("T4").perf->beta_c == 2);
  CHECK(hints.kinds.at("T4").atomic_max == 16);
  CHECK_FALSE(hints.kinds.contains("A100"));
}

TEST_CASE("every policy that adapts gives two jobs the kinds on which each is better") {
  NodeFacts fast = node("fast"), slow = node("slow");
  fast.accelerator = "A100";
  slow.accelerator = "T4";
  const auto job = [](const char* name, double on_a100, double on_t4) {
    const auto perf = [](double seconds) -> Json {
      return {{"alpha_c", seconds}, {"beta_c", 1e-6}, {"alpha_n", 0}, {"beta_n", 0},
              {"alpha_r", 0},       {"beta_r", 0},    {"gamma", 1}};
    };
    const Json train = {
        {"initBatchSize", 128},
        {"maxBatchSize", 128},
        {"localBszBounds", {64, 128}},
        {"maxProfiledReplicas", 1},
        {"gradParams", {{"norm", 1}, {"var", 1}}},
        {"perfParams", perf(on_t4)},
        {"accelerator", "T4"},
        {"accelerators",
         {{"T4", {{"perfParams", perf(on_t4)}}}, {"A100", {{"perfParams", perf(on_a100)}}}}}};
    JobObject object =
        read_sample(Json::parse(R"({"minReplicas": 1, "maxReplicas": 1})"), {{"train", train}});
    object.name = name;
    return object;
  };
  // One gains much on the fast kind, the other next to nothing; each node has room for one.
  fast.allocatable["cpu"] = slow.allocatable["cpu"] = 500;
  const std::vector<JobObject> jobs = {job("any", 0.95, 1), job("gains", 0.1, 1)};
  const auto view = scheduler_view({fast, slow}, {}, jobs, PodSettings{}, kWall + 3600, 3600);
  std::vector<std::string> problems;
  const Snapshot snapshot = policy_input(view.nodes, view.jobs, 3600, problems);
  CHECK(problems.empty());
  for (const PolicyInfo& info : policies()) {
    if (!info.adapts) continue;
    CAPTURE(std::string(info.name));
    const Decision decision = make_policy(info.name)->decide(snapshot, 1, SearchBudget{});
    REQUIRE(decision.jobs.size() == 2);
    for (size_t j = 0; j < 2; ++j) {
      const bool gains = snapshot.jobs[j].name == "team-a/gains";
      REQUIRE(decision.jobs[j].nodes.size() == 1);
      const auto at = static_cast<size_t>(decision.jobs[j].nodes[0]);
      CHECK(snapshot.nodes[at].name == (gains ? "fast" : "slow"));
    }
  }
}

TEST_CASE("jobs that are not to be scheduled, and hints that are nonsense") {
  std::vector<JobObject> jobs(5, read_sample());
  jobs[0].status.phase = "Failed";
  jobs[1].deleting = true;
  jobs[2].suspended = true;
  jobs[3].pod_template = std::make_shared<const Json>(Json::object());
  jobs[4].status.train = Json::parse(R"({"initBatchSize": -5})");
  const auto view = scheduler_view({node("n1")}, {}, jobs, PodSettings{}, kWall, 0);
  REQUIRE(view.jobs.size() == 1);
  CHECK_FALSE(view.jobs[0].hints.batch);
}

TEST_CASE("taints and node selectors are resources") {
  const Json taint = Json::parse(R"([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])");
  NodeFacts fast = node("fast", taint);
  fast.labels["disk"] = "ssd";
  JobObject plain = read_sample(), tolerant = read_sample();
  tolerant.name = "tolerant";
  Json pod_template = *tolerant.pod_template;
  pod_template["spec"]["tolerations"] = Json::parse(R"([{"key": "gpu", "operator": "Exists"}])");
  pod_template["spec"]["nodeSelector"] = Json::parse(R"({"disk": "ssd"})");
  tolerant.pod_template = std::make_shared<const Json>(pod_template);
  const auto view =
      scheduler_view({fast, node("slow")}, {}, {plain, tolerant}, PodSettings{}, kWall, 0);
  const char *without = "without:gpu=yes:NoSchedule", *with = "with:disk=ssd";
  CHECK_FALSE(view.nodes[0].free_for_jobs.contains(without));
  CHECK(view.nodes[0].free_for_jobs.contains(with));
  CHECK(view.nodes[1].free_for_jobs.contains(without));
  CHECK_FALSE(view.nodes[1].free_for_jobs.contains(with));
  CHECK(view.jobs[0].request.contains(without));
  CHECK_FALSE(view.jobs[1].request.contains(without));
  CHECK(view.jobs[1].request.contains(with));
}

TEST_CASE("the kinds of accelerators that a job names are a condition") {
  NodeFacts fast = node("fast"), slow = node("slow");
  fast.accelerator = "NVIDIA-A100-SXM4-80GB";
  slow.accelerator = "Tesla-T4";
  JobObject any = read_sample(), picky = read_sample();
  picky.name = "picky";
  picky.accelerators = {"*a100*", "*H100*"};
  const auto view =
      scheduler_view({fast, slow, node("none")}, {}, {any, picky}, PodSettings{}, kWall, 0);
  const char* condition = "accelerators:*a100*,*H100*";
  CHECK(view.nodes[0].free_for_jobs.contains(condition));
  CHECK_FALSE(view.nodes[1].free_for_jobs.contains(condition));
  CHECK_FALSE(view.nodes[2].free_for_jobs.contains(condition));
  for (const ClusterJob& job : view.jobs) {
    CHECK(job.request.contains(condition) == job.name.ends_with("/picky"));
  }
}

TEST_CASE("nodes that did not take a job's pods are not offered to it, if there are others") {
  JobObject job = read_sample(Json::object(), {{"phase", "Pending"}});
  const std::vector<NodeFacts> nodes = {node("n1"), node("n2")};
  const auto offered = [&](std::map<std::string, int> refused) {
    const auto view = scheduler_view(nodes, {}, {job}, PodSettings{}, kWall, 0,
                                     {{"team-a/digits", std::move(refused)}});
    std::string names;
    for (const ClusterNode& each : view.nodes) {
      const Resources& request = view.jobs[0].request;
      const bool fits = std::all_of(request.begin(), request.end(), [&](const auto& amount) {
        const auto found = each.free_for_jobs.find(amount.first);
        return found != each.free_for_jobs.end() && found->second >= amount.second;
      });
      if (fits) names += each.name;
    }
    return names;
  };
  CHECK(offered({}) == "n1n2");
  CHECK(offered({{"n1", 0}}) == "n2");
  CHECK(offered({{"n1", 0}, {"gone", 0}}) == "n2");
  CHECK(offered({{"n1", 1}, {"n2", 0}}) == "n1");    // it took one
  CHECK(offered({{"n1", 0}, {"n2", 0}}) == "n1n2");  // it is tried again rather than not at all
  job.status.allocation = {"n1"};                    // meanwhile it is there
  CHECK(offered({{"n1", 0}}) == "n1n2");
}

TEST_CASE("a job gets no more replicas than a quota admitted lately, or no nodes") {
  JobObject job = read_sample({{"maxReplicas", 8}}, {{"phase", "Pending"}});
  job.min_replicas = 2;
  const auto seen = [&](int bound) {
    return scheduler_view({node("n1")}, {}, {job}, PodSettings{}, kWall, 0, {},
                          {{"team-a/digits", bound}})
        .jobs;
  };
  REQUIRE(seen(3).size() == 1);
  CHECK(seen(3)[0].max_replicas == 3);
  CHECK(seen(9)[0].max_replicas == 8);
  CHECK(seen(0).empty());
  job.status.allocation = {"n1"};  // decided before that was known: it still has the node
  CHECK(seen(0).size() == 1);
}

TEST_CASE("a job that is not preemptible goes on where its pods do, alone") {
  JobObject stays =
      read_sample({{"preemptible", false}}, {{"phase", "Running"}, {"allocation", {"n1", "n1"}}});
  JobObject waits = read_sample(Json::object(), {{"phase", "Pending"}});
  waits.name = "other";
  NodeFacts cordoned = node("n1"), lost = node("n1");
  cordoned.leaving = true;
  lost.ready = false;
  for (const NodeFacts& left : {cordoned, lost}) {
    const auto seen = [&] {
      return scheduler_view({left, node("n2")}, {}, {stays, waits}, PodSettings{}, kWall, 0);
    };
    const SchedulerView view = seen();
    REQUIRE(view.nodes.size() == 2);
    CHECK(view.nodes[1].name == "n1");
    for (const auto& [name, amount] : view.jobs[0].request) {
      CHECK(view.nodes[1].free_for_jobs.at(name) == 2 * amount);
    }
    stays.status.phase = "Stopping";  // its pods were ended, by whom it may be
    CHECK(seen().nodes.size() == 1);
    stays.status.phase = "Running";
    stays.preemptible = true;
    CHECK(seen().nodes.size() == 1);
    stays.preemptible = false;
  }
}

TEST_CASE("a template's own host and affinity are conditions") {
  JobObject job = read_sample(Json::parse(R"({"template": {"spec": {
      "nodeSelector": {"kubernetes.io/hostname": "n2"},
      "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
          {"key": "pool", "operator": "In", "values": ["a", "b"]}]}]}}},
      "containers": [{"image": "i"}]}}})"));
  NodeFacts first = node("n1"), second = node("n2");
  for (NodeFacts* one : {&first, &second}) one->labels["kubernetes.io/hostname"] = one->name;
  first.labels["pool"] = "b";
  const auto view =
      scheduler_view({first, second}, {}, {job, read_sample()}, PodSettings{}, kWall, 0);
  const char *host = "with:kubernetes.io/hostname=n2", *affinity = "affinity:pool In a,b";
  CHECK(view.jobs[0].request == Resources{{"pods", 1}, {affinity, 1}, {host, 1}});
  CHECK_FALSE(view.jobs[1].request.contains(affinity));
  CHECK(view.nodes[0].free_for_jobs.contains(affinity));
  CHECK_FALSE(view.nodes[0].free_for_jobs.contains(host));
  CHECK_FALSE(view.nodes[1].free_for_jobs.contains(affinity));
  CHECK(view.nodes[1].free_for_jobs.contains(host));
}

TEST_CASE("taints and labels named after GPUs are not what policies count") {
  NodeFacts gpus = node("gpus", Json::parse(R"([{"key": "nvidia.com/gpu", "value": "present",
                                                 "effect": "NoSchedule"}])"));
  gpus.allocatable["nvidia.com/gpu"] = 8;
  gpus.labels["nvidia.com/gpu.product"] = "A100";
  JobObject job = read_sample(Json::parse(R"({"template": {"spec": {
      "nodeSelector": {"nvidia.com/gpu.product": "A100"},
      "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
      "containers": [{"image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}})"));
  job.name = "on-gpus";
  const auto seen =
      scheduler_view({gpus, node("system")}, {}, {read_sample(), job}, PodSettings{}, kWall, 0);
  std::vector<std::string> problems;
  const Snapshot snapshot = policy_input(seen.nodes, seen.jobs, 0, problems);
  CHECK(snapshot.resources[0] == "nvidia.com/gpu");
  CHECK(snapshot.nodes[0].capacity[0] == 8);
  CHECK(problems.empty());
  for (const ClusterNode& one : seen.nodes) {
    for (const auto& [name, amount] : one.free_for_jobs) {
      CHECK(is_condition(name) == (amount == 1'000'000));
    }
  }
}

TEST_CASE("what the installation adds to its pods counts") {
  JobObject job = read_sample(Json::parse(R"({"template": {"spec": {"containers": [
      {"image": "i"}]}}})"));
  PodSettings settings;
  settings.default_resources = Json::parse(R"({"requests": {"cpu": "1.5", "memory": "2"}})");
  const Json ours = Json::parse(
      R"([{"key": "petuum.com/nodegroup", "value": "adaptdl", "effect": "NoSchedule"}])");
  const auto view = scheduler_view({node("n1", ours)}, {}, {job}, settings, kWall, 0);
  CHECK(view.jobs[0].request == Resources{{"cpu", 1500}, {"memory", 2}, {"pods", 1}});

  settings.patch_pods =
      Json::parse(R"([{"op": "add", "path": "/spec/nodeSelector/pool", "value": "ml"}])");
  NodeFacts pooled = node("n2");
  pooled.labels["pool"] = "ml";
  const auto patched = scheduler_view({node("n1"), pooled}, {}, {job}, settings, kWall, 0);
  CHECK(patched.jobs[0].request.at("with:pool=ml") == 1);
  CHECK_FALSE(patched.nodes[0].free_for_jobs.contains("with:pool=ml"));
  CHECK(patched.nodes[1].free_for_jobs.contains("with:pool=ml"));
  CHECK(patched.jobs[0].request.size() == 4);  // and no hostname, which is of one pod

  // A template of which no pod can be made hinders nobody.
  job.pod_template = std::make_shared<const Json>(Json::parse(R"({"spec": {"containers": []}})"));
  CHECK(scheduler_view({node("n1")}, {}, {job}, settings, kWall, 0).jobs.size() == 1);
}

}  // namespace snapshot_test
