// What every policy owes its callers, checked for each of policies() on random snapshots.

#include <doctest/doctest.h>
#include <limits>

#include "core/base/error.h"
#include "core/policy/policy.h"
#include "tests/unit/policy/alike_jobs.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl::properties_test {
namespace {

constexpr SearchBudget kBudget{1'000'000, {}};

Snapshot snapshot_of(uint64_t seed) {
  SnapshotShape shape;
  shape.nodes = 6;
  shape.jobs = 12;
  shape.pinned = 0.2;
  shape.hintless = 0.1;
  shape.gpus = seed % 2 == 0 ? std::vector<int>{4} : std::vector<int>{2, 4, 8};
  shape.cores = seed % 3 == 1;
  shape.wide = seed % 3 == 1;
  if (seed % 4 == 3) shape.accelerators = {"new", "old"};
  Snapshot snapshot = random_snapshot(seed, shape);
  // Silent jobs, and some that only will measure themselves.
  for (size_t j = 0; j < snapshot.jobs.size(); j += 2) snapshot.jobs[j].restartable = true;
  return snapshot;
}

Decision decide(const PolicyInfo& info, const Snapshot& snapshot, uint64_t seed = 1) {
  return make_policy(info.name)->decide(snapshot, seed, kBudget);
}

std::vector<NodeList> allocation_of(const Decision& decision) {
  std::vector<NodeList> allocation;
  for (const auto& job : decision.jobs) allocation.push_back(job.nodes);
  return allocation;
}

// All policies that adapt do, unless they are told not to.
bool avoids_interference(const PolicyInfo& info) {
  return info.adapts;
}

// Calls check(info, snapshot, seed) for every policy and some snapshots.
template <typename Check>
void for_all(const Check& check) {
  for (const PolicyInfo& info : policies()) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      INFO(info.name << ", snapshot " << seed);
      check(info, snapshot_of(seed));
    }
  }
}

TEST_CASE("every answer is feasible, leaves pinned jobs alone and says why") {
  for_all([](const PolicyInfo& info, const Snapshot& snapshot) {
    const Decision decision = decide(info, snapshot);
    REQUIRE(decision.jobs.size() == snapshot.jobs.size());
    CHECK(broken_rule(snapshot, allocation_of(decision), avoids_interference(info)).value_or("") ==
          "");
    for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
      const JobSnapshot& job = snapshot.jobs[j];
      if (!job.preemptible) CHECK(decision.jobs[j].nodes == job.nodes);
      CHECK_FALSE(decision.jobs[j].why.empty());
      CHECK(decision.jobs[j].why.back() != '.');
    }
  });
}

// How many answers in a row differ, each given from the one before; `most` + 1 if that many do.
int changes_until_settled(const PolicyInfo& info, Snapshot snapshot, int most) {
  std::vector<NodeList> before = allocation_of(decide(info, snapshot));
  for (int changes = 0; changes <= most; ++changes) {
    for (size_t j = 0; j < before.size(); ++j) snapshot.jobs[j].nodes = before[j];
    std::vector<NodeList> next = allocation_of(decide(info, snapshot));
    if (next == before) return changes;
    before = std::move(next);
  }
  return most + 1;
}

TEST_CASE("nothing changes when nothing has changed") {
  for_all([](const PolicyInfo& info, const Snapshot& snapshot) {
    // To Sia a job without allocation starts free of charge (restart_factor), also one that it has
    // just stopped because a change would have cost too much. Such a job may come back in the next
    // round, at the cost of another; that this ends is all that its values promise. To the default
    // policy gains are cheaper once no job waits any more, that is, a round after it has started.
    const int most = info.name == "sia" ? 2 : info.name == "proportional" ? 1 : 0;
    CHECK(changes_until_settled(info, snapshot, most) <= most);
  });
}

TEST_CASE("jobs that are worth the same do not take turns where not all fits on the nodes") {
  for (const uint64_t seed : {151, 253}) {
    INFO("snapshot " << seed);
    for (const PolicyInfo& info : policies()) {
      INFO(info.name);
      CHECK(changes_until_settled(info, snapshot_of(seed), 2) <= 2);
    }
  }
}

TEST_CASE("the same question has the same answer") {
  for_all([](const PolicyInfo& info, const Snapshot& snapshot) {
    const Decision one = decide(info, snapshot, 5), two = decide(info, snapshot, 5);
    CHECK(allocation_of(one) == allocation_of(two));
    CHECK(one.objective == two.objective);
  });
}

TEST_CASE("the order in which jobs are told does not matter") {
  for_all([](const PolicyInfo& info, const Snapshot& snapshot) {
    if (info.name == "fixed") return;  // first come, first served
    Snapshot shuffled = snapshot;
    Draw draw(9);
    draw.shuffle(shuffled.jobs);
    CHECK(decide(info, shuffled).objective ==
          doctest::Approx(decide(info, snapshot).objective).epsilon(1e-9));
  });
}

TEST_CASE("a job that is alone runs, however badly it does") {
  for (const PolicyInfo& info : policies()) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      INFO(info.name << ", snapshot " << seed);
      SnapshotShape shape;
      shape.nodes = 3;
      shape.jobs = 1;
      if (seed % 4 == 3) shape.accelerators = {"new", "old"};
      Snapshot snapshot = random_snapshot(seed, shape);
      JobHints& hints = snapshot.jobs[0].hints;
      // The exchange between replicas takes up to minutes.
      Draw draw(seed);
      hints.perf->alpha_r *= draw.log_uniform(1, 1e4);
      hints.perf->alpha_n *= draw.log_uniform(1, 1e4);
      if (draw.chance(0.5)) snapshot.jobs[0].restartable = true;
      if (draw.chance(0.5)) hints.remaining_progress.reset();
      CHECK(decide(info, snapshot).jobs[0].nodes.size() > 0);
    }
  }
}

TEST_CASE("another node makes nothing worse") {
  for (const PolicyInfo& info : policies()) {
    const double sign = info.name == "sia" ? -1 : 1;  // what it minimises
    for (uint64_t seed = 0; seed < 8; ++seed) {
      SnapshotShape shape;
      shape.jobs = 20;  // the fair share is 4 GPUs with 16 and with 17 nodes
      Snapshot snapshot = random_snapshot(seed, shape);
      const double before = sign * decide(info, snapshot).objective;
      snapshot.nodes.push_back({"another", "", {4}});
      const double after = sign * decide(info, snapshot).objective;
      INFO(info.name << ", snapshot " << seed);
      CHECK(after >= before - 0.005 * std::abs(before));
    }
  }
}

std::vector<size_t> replicas(const PolicyInfo& info, const Snapshot& snapshot) {
  std::vector<size_t> counts;
  for (const NodeList& nodes : allocation_of(decide(info, snapshot)))
    counts.push_back(nodes.size());
  return counts;
}

// The last of `jobs` alike ones tells nothing of itself.
Snapshot with_silent_job(int jobs) {
  Snapshot snapshot = alike(jobs);
  snapshot.jobs.back().hints = {};
  snapshot.jobs.back().restartable = true;
  return snapshot;
}

TEST_CASE("a job that tells nothing grows only if it can be restarted") {
  for (const PolicyInfo& info : policies()) {
    if (!info.adapts) continue;
    INFO(info.name);
    Snapshot snapshot = with_silent_job(1);
    CHECK(replicas(info, snapshot) == std::vector<size_t>{8});  // at once, without a restart
    snapshot.jobs[0].age_s = 5000;
    snapshot.jobs[0].nodes = {0};
    CHECK(replicas(info, snapshot) == std::vector<size_t>{8});
    snapshot.jobs[0].max_replicas = 4;
    CHECK(replicas(info, snapshot) == std::vector<size_t>{4});
    snapshot.jobs[0].restartable = false;
    CHECK(replicas(info, snapshot) == std::vector<size_t>{1});
  }
}

TEST_CASE("a job that tells nothing gets what those that have measured themselves leave") {
  for (const PolicyInfo& info : policies()) {
    if (!info.adapts) continue;
    INFO(info.name);
    Snapshot scarce = with_silent_job(2);
    scarce.nodes[0].capacity = {5};
    const std::vector<size_t> both = replicas(info, scarce);
    CHECK(both[0] > both[1]);
    Snapshot limited = with_silent_job(2);
    limited.jobs[0].max_replicas = 2;
    CHECK(replicas(info, limited)[1] >= 4);
  }
}

TEST_CASE("a job that tells nothing is not restarted again and again") {
  for (const PolicyInfo& info : policies()) {
    if (!info.adapts) continue;
    INFO(info.name);
    Snapshot snapshot = with_silent_job(1);
    JobSnapshot& job = snapshot.jobs[0];
    job.nodes = {0, 0, 0, 0};
    job.hints.rescale_cost_s = 30;
    // How soon after its last restart it gets the 4 GPUs that others have left.
    const auto waits_s = [&](int restarts) {
      for (job.restarts = restarts, job.age_s = 60; job.age_s < 1e6; job.age_s *= 1.2) {
        if (replicas(info, snapshot)[0] == 8) return job.age_s;
      }
      return job.age_s;
    };
    const double first_s = waits_s(0);
    CHECK(first_s > 100);
    CHECK(first_s < 3600);
    CHECK(waits_s(10) > 5 * first_s);
  }
}

TEST_CASE("absurd snapshots are refused") {
  for (const PolicyInfo& info : policies()) {
    Snapshot snapshot = snapshot_of(0);
    snapshot.jobs[3].age_s = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_WITH_AS(decide(info, snapshot), doctest::Contains("job-00003"), Error);
    snapshot = snapshot_of(0);
    snapshot.jobs[2].nodes = {1000};
    CHECK_THROWS_WITH_AS(decide(info, snapshot), doctest::Contains("job-00002"), Error);
  }
}

TEST_CASE("options out of range are refused with the range") {
  for (const PolicyInfo& info : policies()) {
    for (const PolicyOption& option : info.options) {
      const std::map<std::string, double> bad = {{std::string(option.name), option.high + 1}};
      CHECK_THROWS_WITH_AS(make_policy(info.name, bad), doctest::Contains("it must be from"),
                           Error);
    }
    CHECK_THROWS_WITH_AS(make_policy(info.name, {{"colour", 1}}),
                         doctest::Contains("unknown option colour; available: "), Error);
  }
}

}  // namespace
}  // namespace adaptdl::properties_test
