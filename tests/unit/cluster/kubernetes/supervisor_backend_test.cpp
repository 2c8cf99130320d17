#include "core/cluster/kubernetes/jobs/supervisor_backend.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <functional>
#include <set>
#include <thread>

#include "core/cluster/kubernetes/jobs/job_keys.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "tests/support/soon.h"
#include "tests/unit/cluster/kubernetes/fake_kinds.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

namespace adaptdl::kubernetes::supervisor_backend_test {
namespace {

using adaptdl::testing::soon;

constexpr const char* kTeam = "team-a";

Json node_with(const char* name, const char* kind) {
  return {{"metadata", {{"name", name}, {"labels", {{"lab.example/kind", kind}}}}}};
}

// A job of two replicas, and its pods as the operator's watch sees them.
struct TwoReplicas {
  kube::FakeApi api{operator_kinds()};
  JobObject job;
  kube::Client client{api.config()};
  const ClusterCache cache{client, {[](const std::string&) {}, [] {}}, ""};
  KubernetesSupervisorBackend backend{cache, "key", [](const std::string&, const Json&) {},
                                      [](const std::string&, GroupLeader) {}};
  SupervisorBackend& supervised = backend;

  explicit TwoReplicas(const Json& spec) {
    Json object = sample_job(
        spec, Json::parse(R"({"group": 3, "allocation": ["n1", "n2"], "phase": "Starting"})"));
    object["metadata"].erase("resourceVersion");
    std::string problem;
    job = read_job(api.put(kTestJobs.in(kTeam), object), problem);
    REQUIRE(problem.empty());
    REQUIRE(soon([&] { return supervised.find(kTeam, "digits").has_value(); }));
  }
  void put_pod(int64_t group, int rank, const std::string& ip) {
    JobStatus status = job.status;
    status.group = group;
    Json pod = make_pod(job, status, {rank, rank == 0 ? "n1" : "n2"}, {"", ""}, PodSettings{});
    pod["status"]["podIP"] = ip;
    api.put(kube::kPods.in(kTeam), pod);
    REQUIRE(soon([&] {
      const std::vector<PodFacts> pods = cache.pods(job);
      return std::any_of(pods.begin(), pods.end(), [&](const PodFacts& seen) {
        return seen.group == group && seen.rank == rank && seen.ip == ip;
      });
    }));
  }
  std::string addresses(int64_t group, const char* name = "digits") {
    const auto found = supervised.addresses(kTeam, name, group);
    return found ? fmt::format("{}", fmt::join(*found, " ")) : "none";
  }
};

}  // namespace

TEST_CASE("a job's token is of its own key, name, namespace and life") {
  const JobObject job = read_sample();
  const JobKeys keys = job_keys("key", job);
  JobObject other = job;
  CHECK(job_keys("key", other).token == keys.token);
  CHECK(keys.token.size() == 64);
  std::set<std::string> all{keys.token, keys.links, job_keys("other", job).token,
                            job_keys("other", job).links};
  CHECK(all.size() == 4);
  for (std::string JobObject::*part :
       {&JobObject::name, &JobObject::job_namespace, &JobObject::uid}) {
    other = job;
    other.*part += "x";
    CHECK(all.insert(job_keys("key", other).token).second);
    CHECK(all.insert(job_keys("key", other).links).second);
  }

  TwoReplicas two(Json::object());
  CHECK(two.supervised.find(kTeam, "digits")->token == job_keys("key", two.job).token);
  CHECK_FALSE(two.supervised.find(kTeam, "other"));
  CHECK_FALSE(two.supervised.find("team-b", "digits"));
}

TEST_CASE("replicas are told the addresses of their group once all have one, and of no other") {
  TwoReplicas two(Json::object());
  CHECK(two.addresses(3) == "none");
  two.put_pod(2, 0, "10.0.0.1");  // of the group before, which ends
  two.put_pod(3, 0, "10.0.0.2");
  CHECK(two.addresses(3) == "none");
  two.put_pod(3, 1, "10.0.0.3");
  CHECK(two.addresses(3) == "10.0.0.2 10.0.0.3");
  CHECK(two.addresses(2) == "none");
  CHECK(two.addresses(4) == "none");
  CHECK(two.addresses(3, "other") == "none");
}

TEST_CASE("replicas of a live job wait for the launcher's address only") {
  TwoReplicas two(Json{{"liveRescale", true}});
  two.put_pod(2, 0, "10.0.0.1");
  two.put_pod(3, 1, "10.0.0.3");
  CHECK(two.addresses(3) == "none");
  two.put_pod(3, 0, "10.0.0.2");
  CHECK(two.addresses(3) == "10.0.0.2 10.0.0.3");
}

TEST_CASE("what a Python program has measured is of the kind of the nodes where its pods run") {
  kube::FakeApi api(operator_kinds());
  api.put(kube::kNodes, node_with("slow", "T4"));
  api.put(kube::kNodes, node_with("fast", "A100"));
  // It is to move to the fast node, but its pod is still on the other one.
  Json object = sample_job(Json::object(), Json::parse(R"({"group": 0, "allocation": ["fast"],
      "train": {"accelerators": {"P100": {"maxLocalBsz": 8}}}})"));
  object["status"]["groupStartTime"] = rfc3339(wall_now_s() - 100);
  object["metadata"].erase("resourceVersion");
  std::string problem;
  const JobObject job = read_job(api.put(kTestJobs.in(kTeam), object), problem);
  api.put(kube::kPods.in(kTeam),
          make_pod(job, job.status, {0, "slow"}, {"slow", ""}, PodSettings{}));

  kube::Client client(api.config());
  const ClusterCache cache(client, {[](const std::string&) {}, [] {}}, "lab.example/kind");
  const TimePoint begun = Monotonic::now();
  while (!cache.synced() && seconds_since(begun) < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Json train;
  KubernetesSupervisorBackend backend(
      cache, "key",
      [&](const std::string& id, Json told) {
        CHECK(id == "team-a/digits");
        train = std::move(told);
      },
      [](const std::string&, GroupLeader) {});
  SchedulingHints hints;
  hints.perf = PerfParams{.alpha_c = 1};
  static_cast<SupervisorBackend&>(backend).hints(kTeam, "digits", hints);
  CHECK(train["accelerator"] == "T4");
  REQUIRE(train["accelerators"].size() == 2);
  CHECK(train["accelerators"]["T4"]["perfParams"]["alpha_c"] == 1);
  CHECK(train["accelerators"]["P100"]["maxLocalBsz"] == 8);
  CHECK(train["perfParams"]["alpha_c"] == 1);
  // It does not tell what a restart costs it.
  CHECK(train["rescaleCost"].get<double>() == doctest::Approx(70).epsilon(0.3));
  hints.rescale_cost_s = 7;
  static_cast<SupervisorBackend&>(backend).hints(kTeam, "digits", hints);
  CHECK(train["rescaleCost"] == 7);
}

TEST_CASE("the launcher's address is first of a live job's, wherever it runs now") {
  kube::FakeApi api(operator_kinds());
  Json object = sample_job({{"liveRescale", true}}, Json::parse(R"({"group": 0, "launchers": [2],
      "allocation": ["n", "n", "n"]})"));
  object["metadata"].erase("resourceVersion");
  std::string problem;
  const JobObject job = read_job(api.put(kTestJobs.in(kTeam), object), problem);
  for (const int rank : {1, 2, 3}) {
    Json pod = make_pod(job, job.status, {rank, "n"}, {"n", ""}, PodSettings{});
    pod["status"] = {{"podIP", fmt::format("10.0.0.{}", rank)}};
    api.put(kube::kPods.in(kTeam), pod);
  }
  kube::Client client(api.config());
  const ClusterCache cache(client, {[](const std::string&) {}, [] {}}, "lab.example/kind");
  const TimePoint begun = Monotonic::now();
  while (!cache.synced() && seconds_since(begun) < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<GroupLeader> told;
  KubernetesSupervisorBackend backend(
      cache, "key", [](const std::string&, const Json&) {},
      [&](const std::string& id, GroupLeader leader) {
        CHECK(id == "team-a/digits");
        told.push_back(leader);
      });
  auto& asked = static_cast<SupervisorBackend&>(backend);
  CHECK(asked.addresses(kTeam, "digits", 0) ==
        std::vector<std::string>{"10.0.0.2", "10.0.0.1", "10.0.0.3"});
  CHECK_FALSE(asked.addresses(kTeam, "digits", 1));
  asked.leads(kTeam, "digits", 0, 3);
  asked.leads(kTeam, "digits", 1, 3);  // of no group that is there
  asked.leads(kTeam, "other", 0, 3);
  CHECK(told == std::vector<GroupLeader>{{0, 3}});
}

}  // namespace adaptdl::kubernetes::supervisor_backend_test
