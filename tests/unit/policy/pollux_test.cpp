#include "core/policy/pollux/pollux.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/policy/pollux/pollux_dual.h"
#include "core/policy/pollux/pollux_search.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl::pollux_test {
namespace {

// Jobs without hints, whose goodput is their number of replicas, on nodes of four GPUs.
Snapshot plain(int nodes, int jobs) {
  Snapshot snapshot;
  snapshot.resources = {"nvidia.com/gpu"};
  for (int n = 0; n < nodes; ++n) snapshot.nodes.push_back({fmt::format("n{}", n), "", {4}});
  for (int j = 0; j < jobs; ++j) {
    JobSnapshot job;
    job.name = fmt::format("j{}", j);
    job.age_s = 1000;
    job.max_replicas = 64;
    job.hints.max_profiled_replicas = 32;
    job.request = {1};
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

std::vector<NodeList> allocation_of(const Decision& decision) {
  std::vector<NodeList> allocation;
  for (const auto& job : decision.jobs) allocation.push_back(job.nodes);
  return allocation;
}

Decision decide(const Snapshot& snapshot, const std::map<std::string, double>& options = {}) {
  return make_policy("pollux", options)->decide(snapshot, 1, {});
}

TEST_CASE("the objective is the published one") {
  Snapshot snapshot = plain(2, 2);  // N/G = 1/4, fair share 4
  snapshot.jobs[0].nodes = {0, 0};
  snapshot.jobs[1].restarts = 3;
  const std::vector<NodeList> allocation = {{0, 0}, {0, 1, 1}};
  const auto at = [&](double p) {
    PolluxOptions options;
    options.fairness = p;
    return evaluate_pollux(snapshot, allocation, options);
  };
  const double factor = (1000 - 3 * 30.0) / (1000 + 30.0);
  const double u0 = 0.5 / 4 + 0.001, u1 = 0.75 * factor / 4 + 0.001;
  CHECK(at(-1).speedup == std::vector<double>{0.5, 0.75});
  CHECK(at(-1).factor[0] == 1);
  CHECK(at(-1).factor[1] == doctest::Approx(factor).epsilon(1e-12));
  CHECK(at(-1).fitness == doctest::Approx(2 / (1 / u0 + 1 / u1)).epsilon(1e-12));
  CHECK(at(1).fitness == doctest::Approx((u0 + u1) / 2).epsilon(1e-12));
  CHECK(at(0).fitness == doctest::Approx(std::sqrt(u0 * u1)).epsilon(1e-12));
  CHECK(at(2).fitness == doctest::Approx(std::sqrt((u0 * u0 + u1 * u1) / 2)).epsilon(1e-12));
}

TEST_CASE("a job's own cost of a rescale counts, and the order of ranks does not") {
  Snapshot snapshot = plain(2, 1);
  snapshot.jobs[0].nodes = {1, 0};
  snapshot.jobs[0].hints.rescale_cost_s = 250;
  snapshot.jobs[0].restarts = 2;
  const auto factor = [&](const NodeList& nodes) {
    return evaluate_pollux(snapshot, std::vector<NodeList>(1, nodes), {}).factor[0];
  };
  CHECK(factor({0, 1}) == 1);
  CHECK(factor({0, 0}) == doctest::Approx(500.0 / 1250));
  snapshot.jobs[0].restarts = 5;
  CHECK(factor({0, 0}) == 0);
  snapshot.jobs[0].hints.rescale_cost_s = 0;
  CHECK(factor({}) == 1);
  snapshot.jobs[0].age_s = 0;
  CHECK(factor({}) == 1);
}

TEST_CASE("equal jobs share alike, and a lone one takes all it may") {
  const Decision four = decide(plain(2, 4));
  for (const auto& job : four.jobs) CHECK(job.nodes.size() == 2);
  CHECK(four.jobs[0].why ==
        "it gets 2 GPUs on 1 node, with 1.0 times the goodput of its fair share");
  Snapshot one = plain(4, 1);
  one.jobs[0].max_replicas = 10;
  CHECK(decide(one).jobs[0].nodes.size() == 10);
  one.jobs[0].hints.max_profiled_replicas = 1;
  const Decision limited = decide(one);
  CHECK(limited.jobs[0].nodes.size() == 2);
  CHECK(limited.jobs[0].why ==
        "it is limited to 2 replicas until it has measured itself with more");
}

TEST_CASE("distributed jobs keep apart unless told otherwise") {
  Snapshot snapshot = plain(2, 2);
  for (auto& job : snapshot.jobs) {
    job.min_replicas = 4;
    job.request = {1};
  }
  snapshot.nodes[0].capacity = {5};
  snapshot.nodes[1].capacity = {3};
  const auto running = [](const Decision& decision) {
    return std::count_if(decision.jobs.begin(), decision.jobs.end(),
                         [](const JobDecision& job) { return !job.nodes.empty(); });
  };
  // One has room on the first node; the other needs one GPU of it and the second node.
  const Decision both = decide(snapshot);
  CHECK(running(both) == 2);
  snapshot.nodes[0].capacity = {3};
  snapshot.nodes.push_back({"n2", "", {2}});
  CHECK(running(decide(snapshot)) == 1);
  const Decision together = decide(snapshot, {{"avoid-interference", 0}});
  CHECK(running(together) == 2);
}

TEST_CASE("a job that gains nothing by starting now starts on what is free") {
  Snapshot snapshot = plain(1, 3);
  for (auto& job : snapshot.jobs) job.age_s = 0;
  for (const auto& job : decide(snapshot).jobs) CHECK(job.nodes.size() == 1);
  snapshot = plain(1, 2);
  snapshot.jobs[0].nodes = {0, 0, 0, 0};
  snapshot.jobs[1].age_s = 0;
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes == NodeList{0, 0, 0, 0});
  CHECK(decision.jobs[1].why.find("it waits because ") == 0);
}

TEST_CASE("waiting and staying are explained") {
  Snapshot snapshot = plain(1, 1);
  snapshot.jobs[0].min_replicas = 8;
  CHECK(decide(snapshot).jobs[0].why ==
        "it waits because it needs at least 8 GPUs, which the nodes cannot provide");
  snapshot = plain(1, 6);
  const Decision crowded = decide(snapshot);
  int waiting = 0;
  for (const auto& job : crowded.jobs) {
    waiting += job.why == "it waits because other jobs gain more from every GPU";
  }
  CHECK(waiting == 2);
  snapshot = plain(2, 1);
  snapshot.jobs[0].nodes = {1, 1};
  snapshot.jobs[0].preemptible = false;
  CHECK(decide(snapshot).jobs[0].why == "it keeps 2 GPUs because it is not preemptible");
}

TEST_CASE("pinned jobs stay where their node has shrunk") {
  Snapshot snapshot = plain(1, 2);
  snapshot.jobs[0].nodes = {0, 0, 0, 0};
  snapshot.jobs[0].preemptible = false;
  snapshot.nodes[0].capacity = {2};
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes == NodeList{0, 0, 0, 0});
  CHECK(decision.jobs[1].nodes.empty());
}

TEST_CASE("a present allocation that became infeasible is replaced") {
  Snapshot snapshot = plain(2, 1);
  snapshot.jobs[0].nodes = {0, 0, 0, 0, 0, 0};
  CHECK(broken_rule(snapshot, allocation_of(decide(snapshot)), true).value_or("") == "");
}

TEST_CASE("empty clusters and clusters without jobs") {
  CHECK(decide(plain(0, 3)).jobs[2].why ==
        "it waits because it needs at least 1 GPU, which the nodes cannot provide");
  CHECK(decide(plain(3, 0)).jobs.empty());
  Snapshot none = plain(2, 2);
  for (auto& node : none.nodes) node.capacity = {0};
  CHECK(decide(none).jobs[0].nodes.empty());
}

TEST_CASE("exact counts and prices agree with trying everything") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SnapshotShape shape;
    shape.nodes = 2;
    shape.jobs = 3;
    const Snapshot snapshot = random_snapshot(seed, shape);
    PolluxProblem problem(snapshot, {});
    const PolluxDual dual = solve_dual(problem);
    double best = -1e300;
    const auto& c = problem.choices;
    for (const auto& x : c[0]) {
      for (const auto& y : c[1]) {
        for (const auto& z : c[2]) {
          if (x.gpus + y.gpus + z.gpus > problem.gpus[0]) continue;
          if (x.spanned + y.spanned + z.spanned > problem.nodes[0]) continue;
          best = std::max(best, x.value + y.value + z.value);
        }
      }
    }
    int64_t work = 100'000'000;
    const auto counts = best_counts(problem, dual, dual.bound - best, work);
    REQUIRE(counts.size() == 3);
    double found = 0;
    for (size_t j = 0; j < 3; ++j) found += c[j][static_cast<size_t>(counts[j])].value;
    INFO("seed " << seed);
    CHECK(found == doctest::Approx(best).epsilon(1e-12));
    CHECK(dual.bound >= best - 1e-9 * std::abs(best));
    CHECK(search_pollux(problem, 0, {}).total <= best + 1e-9 * std::abs(best));
  }
}

TEST_CASE("the search comes within one percent of the best counts, wherever jobs are") {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SnapshotShape shape;
    shape.nodes = 8;
    shape.jobs = 16;
    const Snapshot snapshot = random_snapshot(seed, shape);
    for (const double p : {-1.0, 1.0}) {
      PolluxOptions options;
      options.fairness = p;
      PolluxProblem problem(snapshot, options);
      const double reached = search_pollux(problem, 0, {}).total;
      const PolluxDual dual = solve_dual(problem);
      int64_t work = 1'000'000'000;
      const auto counts = best_counts(problem, dual, dual.bound - reached, work);
      REQUIRE_FALSE(counts.empty());
      double bound = 0;
      for (size_t j = 0; j < counts.size(); ++j) {
        bound += problem.choices[j][static_cast<size_t>(counts[j])].value;
      }
      INFO("seed " << seed << ", p " << p);
      CHECK(problem.objective.fitness(reached) > 0.99 * problem.objective.fitness(bound));
      CHECK(reached <= bound + 1e-9 * std::abs(bound));
    }
  }
}

TEST_CASE("the search does not stop early where cores limit what fits, too") {
  SnapshotShape shape;
  shape.nodes = 6;
  shape.jobs = 6;
  shape.cores = true;
  shape.gpus = {2, 4, 8};
  // What it finds when it goes on; it stopped 1.5 to 2.5 % below.
  const std::map<uint64_t, double> best = {{5, 0.18014}, {119, 0.22375}, {87, 0.14461}};
  for (const auto& known : best) {
    INFO("snapshot " << known.first);
    shape.wide = known.first % 3 == 1;
    const auto policy = make_policy("pollux");
    CHECK(policy->decide(random_snapshot(known.first, shape), 1, {}).objective >
          0.999 * known.second);
  }
}

TEST_CASE("the search goes on where no exchange of a few jobs helps") {
  SnapshotShape shape;
  shape.nodes = 15;
  shape.jobs = 27;
  const auto policy = make_policy("pollux");
  // The best of 12 seeds; the search stopped 1 % below with this one.
  CHECK(policy->decide(random_snapshot(1037, shape), 0, {}).objective > 0.995 * 0.20503);
}

TEST_CASE("the deadline is kept, and said to have cut in") {
  SnapshotShape shape;
  shape.nodes = 64;
  shape.jobs = 100;
  const Snapshot snapshot = random_snapshot(3, shape);
  const auto policy = make_policy("pollux");
  const Decision late = policy->decide(snapshot, 0, {1'000'000'000, Monotonic::now()});
  CHECK(late.cut_short);
  CHECK(broken_rule(snapshot, allocation_of(late), true).value_or("") == "");
  const Decision tiny = policy->decide(snapshot, 0, {1000, {}});
  CHECK(broken_rule(snapshot, allocation_of(tiny), true).value_or("") == "");
  CHECK(tiny.objective <= policy->decide(snapshot, 0, {}).objective);
}

}  // namespace
}  // namespace adaptdl::pollux_test
