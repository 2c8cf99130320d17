#include "core/sim/sim_cluster.h"

#include <doctest/doctest.h>
#include <utility>

#include "tests/unit/base/expect_error.h"
#include "tests/unit/sim/sample_cluster.h"

using namespace adaptdl;

namespace {

using Names = std::vector<std::string>;

Names present(SimCluster& cluster) {
  Names names;
  for (const ClusterJob& job : cluster.jobs()) names.push_back(job.name);
  return names;
}

Names available(SimCluster& cluster) {
  Names names;
  for (const ClusterNode& node : cluster.nodes()) names.push_back(node.name);
  return names;
}

}  // namespace

TEST_CASE("a job is there from the end of the round in which it was submitted") {
  SampleCluster cluster({sample_job("late", 61), sample_job("a", 0), sample_job("b", 60)});
  CHECK(present(cluster) == Names{});
  CHECK(cluster.next_submission_s() == 0);
  CHECK(cluster.advance_to(60));
  CHECK(present(cluster) == Names{"a", "b"});
  CHECK(cluster.next_submission_s() == 61);
  CHECK_FALSE(cluster.advance_to(60.5));
  CHECK(cluster.advance_to(120));
  CHECK(present(cluster) == Names{"a", "b", "late"});
  CHECK(std::isinf(cluster.next_submission_s()));
}

TEST_CASE("a scheduler sees what a job's user and its profile allow") {
  WorkloadJob spec = sample_job("a", 0);
  spec.replicas = 3;
  spec.min_replicas = 2;
  spec.preemptible = false;
  SampleCluster cluster({spec});
  cluster.advance_to(60);
  const ClusterJob job = cluster.jobs().at(0);
  CHECK(job.max_replicas == 4);  // the profile's
  CHECK(job.min_replicas == 2);
  CHECK(job.requested_replicas == 3);
  CHECK_FALSE(job.preemptible);
  CHECK(job.phase == JobPhase::pending);
  CHECK(job.request == Resources{{"gpu", 1}});
}

TEST_CASE("a job runs on what it is given, and its end is known to the second") {
  SampleCluster cluster({sample_job("a", 10)});
  cluster.advance_to(60);
  cluster.allocate("a", {"node-0"}, "because");
  CHECK(cluster.jobs().at(0).phase == JobPhase::starting);
  CHECK(cluster.advance_to(120));  // it has measured itself
  CHECK(cluster.jobs().at(0).phase == JobPhase::running);
  CHECK(cluster.advance_to(180));
  CHECK(cluster.all_finished());
  CHECK(present(cluster) == Names{});
  const SimCluster::Job& job = cluster.job("a");
  CHECK(job.started_s == 60);
  CHECK(job.completed_s == 130);  // 30 s of rescaling, two epochs of 20 s
  CHECK(job.nodes.empty());
}

TEST_CASE("every change of an allocation after the first is a restart") {
  SampleCluster cluster({sample_job("a", 0)});
  cluster.advance_to(10);
  cluster.allocate("a", {}, "no room");
  CHECK(cluster.events.size() == 1);
  cluster.allocate("a", {"node-0"}, "a start");
  CHECK(cluster.job("a").restarts == 0);
  cluster.allocate("a", {"node-0"}, "the same again");
  CHECK(cluster.job("a").restarts == 0);
  CHECK(cluster.events.size() == 2);
  cluster.allocate("a", {"node-0", "node-1"}, "more");
  CHECK(cluster.job("a").restarts == 1);
  cluster.allocate("a", {}, "nothing");
  CHECK(cluster.job("a").restarts == 1);
  cluster.allocate("a", {"node-0", "node-1"}, "again");
  CHECK(cluster.job("a").restarts == 2);
}

TEST_CASE("a lost node takes the allocations of its jobs with it") {
  SampleCluster cluster({sample_job("a", 0), sample_job("b", 0)});
  cluster.advance_to(10);
  cluster.allocate("a", {"node-0", "node-1"}, "");
  cluster.allocate("b", {"node-1"}, "");
  cluster.lose_node("node-0");
  CHECK(available(cluster) == Names{"node-1"});
  CHECK(cluster.job("a").nodes.empty());
  CHECK(cluster.job("a").why == "node node-0 was lost");
  CHECK(cluster.job("b").nodes == Names{"node-1"});
  CHECK(cluster.job("a").restarts == 0);
  CHECK_ERROR(cluster.allocate("a", {"node-0"}, ""), "job a: node node-0 is lost");
  cluster.return_node("node-0");
  CHECK(available(cluster) == Names{"node-0", "node-1"});
  cluster.allocate("a", {"node-0"}, "");
  CHECK(cluster.job("a").restarts == 1);
}

TEST_CASE("a node under notice keeps its jobs and gets no more") {
  SampleCluster cluster({sample_job("a", 0), sample_job("b", 0)});
  cluster.advance_to(10);
  cluster.allocate("a", {"node-0"}, "");
  cluster.notice_node("node-0");
  CHECK(available(cluster) == Names{"node-1"});
  cluster.advance_to(45);
  CHECK(cluster.job("a").state.progress() > 0);
  CHECK_ERROR(cluster.allocate("b", {"node-0"}, ""), "under notice");
  cluster.lose_node("node-0");
  CHECK(cluster.job("a").nodes.empty());
}

TEST_CASE("faults are told once each") {
  SampleCluster cluster({});
  cluster.return_node("node-0");
  cluster.notice_node("node-0");
  cluster.notice_node("node-0");
  cluster.lose_node("node-0");
  cluster.lose_node("node-0");
  cluster.return_node("node-0");
  using Kind = TimelineEvent::Kind;
  CHECK(cluster.kinds() == std::vector<Kind>{Kind::notice, Kind::node_lost, Kind::node_back});
}

TEST_CASE("the simulated cluster refuses what it does not know") {
  SampleCluster cluster({sample_job("a", 0), sample_job("late", 500)});
  cluster.advance_to(60);
  CHECK_ERROR(cluster.allocate("b", {}, ""), "no job b");
  CHECK_ERROR(cluster.allocate("late", {"node-0"}, ""), "job late has not been submitted");
  CHECK_ERROR(cluster.allocate("a", {"node-7"}, ""), "no node node-7");
  CHECK_ERROR(cluster.lose_node("node-7"), "no node node-7");
  CHECK_ERROR(cluster.notice_node("node-7"), "no node node-7");
  WorkloadJob stranger = sample_job("a", 0);
  stranger.application = "unheard-of";
  CHECK_ERROR(SampleCluster({stranger}), "job a: application unheard-of has no profile");
}

TEST_CASE("distributed jobs that share a node slow each other down") {
  SimClusterOptions options;
  options.interference = 0.5;
  const auto progress = [&](const Names& of_b) {
    SampleCluster cluster({sample_job("a", 0), sample_job("b", 0)}, options);
    cluster.advance_to(1);
    cluster.allocate("a", {"node-0", "node-1"}, "");
    cluster.allocate("b", of_b, "");
    cluster.advance_to(35);
    return cluster.job("a").state.progress();
  };
  const double alone = progress({});
  CHECK(alone > 0);
  CHECK(progress({"node-1"}) == alone);  // b is not distributed
  CHECK(progress({"node-1", "node-0"}) == doctest::Approx(alone / 2));
}

TEST_CASE("news that does not arrive leaves the scheduler with what it had") {
  SampleCluster cluster({sample_job("a", 0)});
  cluster.advance_to(10);
  cluster.allocate("a", {"node-0"}, "");
  bool arrives = false;
  cluster.hints_arrive = [&](const SimCluster::Job& job) {
    CHECK(job.spec.name == "a");
    return arrives;
  };
  cluster.advance_to(45);
  CHECK_FALSE(cluster.jobs().at(0).hints.perf);
  arrives = true;
  cluster.advance_to(46);
  CHECK(cluster.jobs().at(0).hints.perf);
  CHECK(cluster.jobs().at(0).hints.rescale_cost_s == 30);
  CHECK_FALSE(cluster.jobs().at(0).hints.remaining_progress);
}

TEST_CASE("a job that has measured itself, or itself with more replicas, is a reason to allocate") {
  SampleCluster cluster({sample_job("a", 0)});
  cluster.advance_to(10);
  cluster.allocate("a", {"node-0"}, "");
  CHECK_FALSE(cluster.advance_to(40));  // it was rescaling
  CHECK(cluster.advance_to(41));
  CHECK_FALSE(cluster.advance_to(42));
  cluster.allocate("a", {"node-0", "node-1"}, "");
  CHECK_FALSE(cluster.advance_to(72));
  CHECK(cluster.advance_to(73));
  cluster.allocate("a", {"node-1"}, "");
  CHECK_FALSE(cluster.advance_to(110));  // nothing new
}

TEST_CASE("lengths are told where they are known") {
  SimClusterOptions options;
  options.lengths_known = true;
  SampleCluster cluster({sample_job("a", 0)}, options);
  cluster.advance_to(10);
  cluster.allocate("a", {"node-0"}, "");
  cluster.advance_to(50);
  CHECK(*cluster.jobs().at(0).hints.remaining_progress == doctest::Approx(199 - 50));
}

TEST_CASE("what a scheduler is told can be distorted, what is so cannot") {
  SampleCluster cluster({sample_job("a", 0)});
  cluster.distort = [](ClusterJob& job) { job.submitted_s += 5000; };
  cluster.advance_to(10);
  CHECK(cluster.jobs().at(0).submitted_s == 5000);
  CHECK(cluster.job("a").spec.submitted_s == 0);
}

TEST_CASE("batches are the workload's where jobs do not adapt them") {
  SimClusterOptions options;
  options.adapt_batch = false;
  options.rescale_s = -1;
  WorkloadJob spec = sample_job("a", 0);
  spec.batch_size = 80;
  SampleCluster cluster({spec}, options);
  cluster.advance_to(10);
  cluster.allocate("a", {"node-0", "node-0"}, "");
  CHECK(cluster.job("a").state.batch() == BatchChoice{40, 0, 0});
  CHECK(cluster.rescale_cost_s(cluster.job("a")) == 1);  // the profile does not tell it
}

namespace {

// Kind "a" as in the sample, kind "b" twice as fast.
ProfileData two_kinds() {
  ProfileData data = sample_profile();
  Measurements& fast = data.kinds["b"] = static_cast<const Measurements&>(data);
  for (PlacementMeasurement& row : fast.placements) row.time.step_s /= 2, row.time.sync_s /= 2;
  data.kinds["a"] = std::exchange(static_cast<Measurements&>(data), {});
  data.rescale_s = 30;
  data.told_rescale_s = 20;
  return data;
}

class KindsCluster : public SimCluster {
 public:
  explicit KindsCluster(const SimClusterOptions& options, const ProfileData& profile = two_kinds())
      : KindsCluster(options, std::map<std::string, Profile>{{"sample", Profile(profile)}}) {}

  void start(const std::vector<std::string>& nodes) {
    advance_to(10);
    allocate("a", nodes, "");
  }
  const Job& only() const { return job("a"); }

 private:
  KindsCluster(const SimClusterOptions& options, const std::map<std::string, Profile>& profiles)
      : SimCluster(
            {{"a-0", "a", {{"gpu", 2}}}, {"a-1", "a", {{"gpu", 2}}}, {"b-0", "b", {{"gpu", 2}}}},
            {sample_job("a", 0)}, keep = profiles, options) {}
  static inline std::map<std::string, Profile> keep;
};

}  // namespace

TEST_CASE("step times, fits and GPU hours are those of the kind of accelerator") {
  KindsCluster cluster({.rescale_s = 0});
  cluster.start({"a-0"});
  cluster.advance_to(20);
  CHECK(cluster.only().state.progress() == doctest::Approx(50));
  const JobHints on_a = cluster.jobs().at(0).hints;
  CHECK_FALSE(on_a.perf);
  REQUIRE(on_a.kinds.contains("a"));
  CHECK(on_a.kinds.at("a").perf);
  CHECK(on_a.kinds.at("a").atomic_max == 40);
  CHECK_FALSE(on_a.kinds.contains("b"));
  cluster.allocate("a", {"b-0"}, "");
  cluster.advance_to(25);
  CHECK(cluster.only().state.progress() > 99);  // 10 of 20 samples a step, then twice as fast
  const JobHints on_both = cluster.jobs().at(0).hints;
  CHECK(on_both.kinds.at("b").perf);
  CHECK(cluster.only().gpu_s_by_kind.at("a") == 10);
  CHECK(cluster.only().gpu_s_by_kind.at("b") == 5);
}

TEST_CASE("all replicas start again on another kind") {
  ProfileData profile = two_kinds();
  profile.start_s = 5;
  KindsCluster cluster({.rescale_s = -1}, profile);
  cluster.start({"a-0"});
  cluster.advance_to(50);
  const double before = cluster.only().state.progress();
  cluster.allocate("a", {"b-0", "b-0"}, "");
  cluster.advance_to(84);
  CHECK(cluster.only().state.progress() == before);
  cluster.advance_to(86);
  CHECK(cluster.only().state.progress() > before);
}

TEST_CASE("a job that moves to other nodes altogether starts again") {
  ProfileData profile = two_kinds();
  profile.start_s = 5;
  KindsCluster cluster({.rescale_s = -1}, profile);
  cluster.start({"a-0"});
  cluster.advance_to(50);
  const double before = cluster.only().state.progress();
  cluster.allocate("a", {"a-1"}, "");
  cluster.advance_to(84);
  CHECK(cluster.only().state.progress() == before);
  cluster.advance_to(86);
  CHECK(cluster.only().state.progress() > before);
}

TEST_CASE("by Sia's rules, a free move gives up the replicas that are starting") {
  ProfileData profile = two_kinds();
  profile.start_s = 5;
  KindsCluster cluster({.rescale_s = -1, .rules = {.same_shape_free = true}}, profile);
  cluster.start({"a-0"});
  cluster.advance_to(46);
  cluster.allocate("a", {"a-0", "a-0"}, "");
  cluster.advance_to(48);
  cluster.allocate("a", {"a-1"}, "");
  cluster.advance_to(54);
  CHECK(cluster.only().state.replicas() == 1);
  CHECK_FALSE(cluster.only().state.rescaling());
}

TEST_CASE("by Sia's rules, equal nodes are free, changes are finished, and speeds are known") {
  KindsCluster cluster({.rescale_s = -1,
                        .rules = {.same_shape_free = true,
                                  .finish_changes = true,
                                  .speeds_known = true,
                                  .costs_told = true}});
  cluster.advance_to(10);
  const JobHints before = cluster.jobs().at(0).hints;
  CHECK(before.kinds.at("b").speed == doctest::Approx(2 * *before.kinds.at("a").speed));
  CHECK_FALSE(before.kinds.at("a").perf);
  cluster.allocate("a", {"a-0"}, "");
  CHECK(cluster.jobs().at(0).settling);
  cluster.advance_to(45);
  CHECK_FALSE(cluster.jobs().at(0).settling);
  CHECK(cluster.jobs().at(0).hints.rescale_cost_s == 20);
  cluster.allocate("a", {"a-1"}, "");
  CHECK(cluster.only().restarts == 0);
  CHECK_FALSE(cluster.jobs().at(0).settling);
  cluster.allocate("a", {"b-0"}, "");
  CHECK(cluster.only().restarts == 1);
  CHECK(cluster.jobs().at(0).settling);
}

TEST_CASE("a job runs on kinds only on which its application was measured") {
  ProfileData profile = two_kinds();
  profile.kinds.erase("b");
  KindsCluster cluster({}, profile);
  cluster.advance_to(10);
  const ClusterJob job = cluster.jobs().at(0);
  CHECK(job.request.at("profile:sample") == 1);
  const std::vector<ClusterNode> nodes = cluster.nodes();
  CHECK(nodes.at(0).free_for_jobs.contains("profile:sample"));
  CHECK_FALSE(nodes.at(2).free_for_jobs.contains("profile:sample"));
  profile.kinds["c"] = profile.kinds["a"];
  profile.kinds.erase("a");
  CHECK_ERROR(KindsCluster({}, profile), "application sample was measured on c only");
}
