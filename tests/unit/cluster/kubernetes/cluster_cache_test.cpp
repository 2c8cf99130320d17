#include "core/cluster/kubernetes/cluster_cache.h"

#include <doctest/doctest.h>
#include <set>
#include <thread>

#include "tests/unit/cluster/kubernetes/fake_kinds.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

TEST_CASE("with namespaces, the jobs of others are not known") {
  kube::FakeApi api(operator_kinds());
  for (const char* space : {"team-a", "team-b", "team-c"}) {
    Json job = sample_job();
    job["metadata"] = {{"namespace", space}, {"name", "digits"}};
    api.put(kTestJobs.in(space), job);
  }
  kube::Client client(api.config());
  const auto ids_in = [&](const std::vector<std::string>& namespaces) {
    const ClusterCache cache(client, {[](const std::string&) {}, [] {}}, "", namespaces);
    const TimePoint begun = Monotonic::now();
    while (!cache.synced() && seconds_since(begun) < 20) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::vector<std::string> ids;
    for (const KnownJob& known : cache.jobs()) {
      CHECK(cache.job(known.job.id()).has_value());
      ids.push_back(known.job.id());
    }
    if (!namespaces.empty()) CHECK_FALSE(cache.job("team-b/digits").has_value());
    CHECK(cache.problem().empty());
    return ids;
  };
  CHECK(ids_in({}) == std::vector<std::string>{"team-a/digits", "team-b/digits", "team-c/digits"});
  CHECK(ids_in({"team-c", "team-a"}) == std::vector<std::string>{"team-a/digits", "team-c/digits"});
}

TEST_CASE("only the pods of jobs that are scheduled here make room for others") {
  kube::FakeApi api(operator_kinds());
  const auto put = [&](const char* space, const char* name, const Json& metadata) {
    Json pod = {{"metadata", metadata}, {"spec", {{"nodeName", name}}}};
    pod["metadata"]["name"] = name;
    pod["metadata"]["namespace"] = space;
    api.put(kube::kPods.in(space), pod);
  };
  const auto of_job = [](const char* job, const char* owner, const char* kind) {
    return Json{{"labels", {{"adaptdl/job", job}}},
                {"ownerReferences",
                 {{{"kind", kind}, {"name", owner}, {"uid", "u"}, {"controller", true}}}}};
  };
  put("team-a", "replica", of_job("digits", "digits", "AdaptDLJob"));
  put("team-a", "copied", of_job("digits", "web", "ReplicaSet"));
  put("team-a", "bare", {{"labels", {{"adaptdl/job", "digits"}}}});
  put("team-b", "elsewhere", of_job("digits", "digits", "AdaptDLJob"));
  put("system", "placeholder", {{"labels", {{"adaptdl/placeholder", "true"}}}});
  kube::Client client(api.config());
  const ClusterCache cache(client, {[](const std::string&) {}, [] {}}, "", {"team-a"});
  const TimePoint begun = Monotonic::now();
  while (!cache.synced() && seconds_since(begun) < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::set<std::string> movable;
  const std::vector<PodUse> uses = cache.uses();
  for (const PodUse& use : uses) {
    if (use.movable) movable.insert(use.node);
  }
  CHECK(uses.size() == 5);
  CHECK(movable == std::set<std::string>{"placeholder", "replica"});
}
