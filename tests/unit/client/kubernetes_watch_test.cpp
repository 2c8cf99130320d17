// `adaptdl ls -w` on Kubernetes.

#include <cstdlib>
#include <doctest/doctest.h>

#include "cli/frame/output.h"
#include "core/client/open_cluster.h"
#include "tests/unit/client/kubernetes_lab.h"

namespace adaptdl::client {
namespace {

struct WentOn {};  // no std::exception, which a watch may take for the server's

}  // namespace

TEST_CASE("a watch of jobs ends with what goes wrong here") {
  KubernetesLab lab;
  // Clusters that were seen are noted there.
  setenv("XDG_STATE_HOME", lab.folder.path().c_str(), 1);
  const ClusterChoice choice =
      test_choice(lab.folder, "server: " + lab.fake.config().server, "lab");
  const auto jobs = open_cluster(choice, false).query;
  int rounds = 0, last = 0;
  const auto watch = [&] {
    jobs->watch(
        JobQuery::Detail::brief, [](const JobView&) {}, {},
        [&] {
          if (++rounds > last) throw WentOn();
          if (rounds == last) throw OutputClosed();
        });
  };
  SUBCASE("in the first round") {
    last = 1;
    CHECK_THROWS_AS(watch(), OutputClosed);
  }
  SUBCASE("when something happens") {
    last = 2;
    const Meanwhile user([&] {
      lab.job["metadata"]["labels"]["round"] = std::to_string(lab.fake.api().requests());
      lab.fake.api().put(kAdaptDLJobs.in("lab"), lab.job);
      return false;
    });
    CHECK_THROWS_AS(watch(), OutputClosed);
  }
  CHECK(rounds == last);
  unsetenv("XDG_STATE_HOME");
}

}  // namespace adaptdl::client
