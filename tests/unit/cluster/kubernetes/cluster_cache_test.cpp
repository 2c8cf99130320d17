#include "core/cluster/kubernetes/cluster_cache.h"

#include <doctest/doctest.h>
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
