#include "core/cluster/local/scheduling.h"

#include <doctest/doctest.h>
#include <stdexcept>

#include "core/base/error.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

// One node with a job that wants one slot, which cannot always be looked at.
class Troubled : public Cluster {
 public:
  enum class Trouble { none, error, exception } trouble = Trouble::none;
  double time_s = 100;
  std::vector<std::string> given;
  int looks = 0;

  double now_s() override { return time_s; }
  std::vector<ClusterNode> nodes() override {
    ClusterNode node;
    node.name = "here";
    node.free_for_jobs = {{"cpu", 4000}};
    return {node};
  }
  std::vector<ClusterJob> jobs() override {
    ++looks;
    if (trouble == Trouble::error) fail("not now");
    if (trouble == Trouble::exception) throw std::runtime_error("a defect");
    ClusterJob job;
    job.name = "a";
    job.nodes = given;
    job.min_replicas = job.max_replicas = job.requested_replicas = 1;
    job.request = {{"cpu", 1000}};
    return {job};
  }
  void allocate(const std::string&, const std::vector<std::string>& nodes,
                const std::string&) override {
    given = nodes;
  }
  void explain(const std::string&, const std::string&) override {}
};

}  // namespace

TEST_CASE("a round that fails changes nothing, ends nothing, and is tried again in its time") {
  Troubled cluster;
  ServiceConfig config;
  config.policy = "proportional";
  Scheduling scheduling(cluster, config, {});
  for (const auto trouble : {Troubled::Trouble::error, Troubled::Trouble::exception}) {
    cluster.trouble = trouble;
    const int before = cluster.looks;
    CHECK_NOTHROW(scheduling.round_if_due());
    CHECK(cluster.looks == before + 1);
    CHECK_NOTHROW(scheduling.round_if_due());  // not yet again
    CHECK(cluster.looks == before + 1);
    CHECK(cluster.given.empty());
    cluster.time_s += config.interval_s;
  }
  cluster.trouble = Troubled::Trouble::none;
  scheduling.round_if_due();
  CHECK(cluster.given == std::vector<std::string>{"here"});
}

TEST_CASE("a configuration that cannot be leaves the scheduler as it was") {
  Troubled cluster;
  ServiceConfig config;
  config.policy = "proportional";
  Scheduling scheduling(cluster, config, {});
  ServiceConfig unknown = config;
  unknown.policy = "none such";
  CHECK_THROWS_AS(scheduling.configure(unknown), Error);
  CHECK(scheduling.policy() == "proportional");
  scheduling.round_if_due();
  CHECK(cluster.given == std::vector<std::string>{"here"});
}
