#include "core/cluster/kubernetes/jobs/supervisor_backend.h"

#include <doctest/doctest.h>
#include <thread>

#include "tests/unit/cluster/kubernetes/fake_kinds.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

constexpr const char* kTeam = "team-a";

Json node_with(const char* name, const char* kind) {
  return {{"metadata", {{"name", name}, {"labels", {{"lab.example/kind", kind}}}}}};
}

}  // namespace

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
  KubernetesSupervisorBackend backend(cache, "key", [&](const std::string& id, Json told) {
    CHECK(id == "team-a/digits");
    train = std::move(told);
  });
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
