#include <algorithm>
#include <doctest/doctest.h>

#include "core/goodput/goodput_table.h"
#include "core/policy/policy.h"
#include "tests/unit/policy/alike_jobs.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

Decision answer(const Snapshot& snapshot) {
  return make_policy("proportional")->decide(snapshot, 1, {});
}

std::vector<size_t> replicas(const Snapshot& snapshot) {
  std::vector<size_t> counts;
  for (const JobDecision& job : answer(snapshot).jobs) counts.push_back(job.nodes.size());
  return counts;
}

TEST_CASE("equal jobs get equal shares, all that there is") {
  CHECK(replicas(alike(1)) == std::vector<size_t>{8});
  CHECK(replicas(alike(2)) == std::vector<size_t>{4, 4});
  CHECK(replicas(alike(4)) == std::vector<size_t>{2, 2, 2, 2});
}

TEST_CASE("where lengths are known jobs that scale well run one after another") {
  Snapshot snapshot = alike(3);
  snapshot.jobs[0].hints.remaining_progress = 1e6;
  snapshot.jobs[1].hints.remaining_progress = 1e4;
  snapshot.jobs[2].hints.remaining_progress = 1e5;
  CHECK(replicas(snapshot) == std::vector<size_t>{0, 8, 0});
}

TEST_CASE("jobs of unknown length trade places only for a real gain, however cheap that is") {
  Snapshot snapshot = alike(3);
  for (auto& job : snapshot.jobs) job.hints.rescale_cost_s = 0;
  snapshot.jobs[0].nodes = {0, 0, 0, 0};
  snapshot.jobs[1].nodes = {0, 0};
  snapshot.jobs[2].nodes = {0, 0};
  snapshot.jobs[0].attained_service = 1000;
  snapshot.jobs[1].attained_service = 900;
  snapshot.jobs[2].attained_service = 2000;
  CHECK(replicas(snapshot) == std::vector<size_t>{4, 2, 2});
  snapshot.jobs[0].attained_service = 1e6;
  CHECK(replicas(snapshot)[0] < 4);
}

TEST_CASE("a job that no cluster of these nodes can run keeps nobody from what is free") {
  Snapshot snapshot = alike(2);
  snapshot.jobs[0].nodes = {0, 0, 0, 0, 0, 0};
  snapshot.jobs[1].max_replicas = 100;
  for (const int least : {1, 9}) {
    CAPTURE(least);
    snapshot.jobs[1].min_replicas = least;
    CHECK((replicas(snapshot)[0] == 8) == (least == 9));
  }
}

// Alike jobs whose replicas need something besides a GPU, of which the first one has taken all.
Snapshot scarce(int jobs, const char* resource, const std::vector<int64_t>& of_nodes) {
  Snapshot snapshot = alike(jobs);
  snapshot.resources.emplace_back(resource);
  snapshot.nodes.clear();
  NodeList taken;
  for (size_t n = 0; n < of_nodes.size(); ++n) {
    snapshot.nodes.push_back({fmt::format("node-{}", n), "", {8, of_nodes[n]}});
    taken.insert(taken.end(), static_cast<size_t>(std::min<int64_t>(8, of_nodes[n])),
                 static_cast<int>(n));
  }
  for (JobSnapshot& job : snapshot.jobs) job.request.push_back(1);
  snapshot.jobs[0].nodes = std::move(taken);
  return snapshot;
}

TEST_CASE("what is scarce is shared like GPUs, and no job waits for the end of another one") {
  const auto counts = [](const Snapshot& snapshot) {
    std::vector<size_t> all;
    for (const JobDecision& job :
         make_policy("proportional", {{"idle", 2.0}})->decide(snapshot, 1, {}).jobs) {
      all.push_back(job.nodes.size());
    }
    std::ranges::sort(all);
    return all;
  };
  CHECK(counts(scarce(2, "memory", {3})) == std::vector<size_t>{1, 2});
  CHECK(counts(scarce(3, "memory", {3})) == std::vector<size_t>{1, 1, 1});
  CHECK(counts(scarce(4, "memory", {4, 4})) == std::vector<size_t>{2, 2, 2, 2});
  // Only one of the nodes may be used.
  CHECK(counts(scarce(2, "node-selector:pool=a", {0, 1 << 20})) == std::vector<size_t>{4, 4});
}

TEST_CASE("a job that finds no room is told what lacks") {
  Snapshot memory = scarce(2, "memory", {3});
  for (JobSnapshot& job : memory.jobs) job.min_replicas = 2;
  CHECK(answer(memory).jobs[1].why.find("too little memory is free for ") != std::string::npos);
}

TEST_CASE("a job whose smallest size is slower than one replica runs where nobody else wants to") {
  Snapshot snapshot = alike(1);
  JobSnapshot& job = snapshot.jobs[0];
  job.min_replicas = job.max_replicas = 2;
  job.nodes = {0, 0};
  job.age_s = 60;
  job.hints.perf->alpha_r = 100;  // s for each exchange between two replicas
  REQUIRE(answer(snapshot).jobs[0].nodes.size() == 2);
  job.nodes = {};
  CHECK(replicas(snapshot) == std::vector<size_t>{2});
}

TEST_CASE("replicas that take longer to start than an allocation stays are not added") {
  Snapshot snapshot = alike(1);
  JobHints& hints = snapshot.jobs[0].hints;
  snapshot.jobs[0].nodes = {0, 0, 0, 0};
  hints.rescale_cost_s = 0.01;
  hints.remaining_progress = 1e5;
  CHECK(replicas(snapshot) == std::vector<size_t>{8});
  hints.start_cost_s = 5;
  CHECK(replicas(snapshot) == std::vector<size_t>{8});
  hints.start_cost_s = 20000;
  CHECK(replicas(snapshot) == std::vector<size_t>{4});
}

TEST_CASE("a job near its end is left alone") {
  Snapshot snapshot = alike(2);
  snapshot.jobs[0].nodes = {0};
  snapshot.jobs[0].hints.remaining_progress = 1;
  snapshot.jobs[0].hints.rescale_cost_s = 30;
  CHECK(replicas(snapshot)[0] == 1);
}

TEST_CASE("a job that has measured little grows step by step") {
  Snapshot snapshot = alike(1);
  snapshot.jobs[0].hints.max_profiled_replicas = 1;
  CHECK(replicas(snapshot) == std::vector<size_t>{4});
  snapshot.jobs[0].hints = {};
  CHECK(replicas(snapshot) == std::vector<size_t>{1});
}

TEST_CASE(
    "of jobs of which nothing is known the oldest starts first, and the others are told why") {
  Snapshot snapshot = alike(3);
  snapshot.nodes = {{"node", "", {1}}};
  for (size_t j = 0; j < 3; ++j) {
    snapshot.jobs[j].hints = {};
    snapshot.jobs[j].age_s = j == 1 ? 30 : 20;
  }
  CHECK(replicas(snapshot) == std::vector<size_t>{0, 1, 0});
  snapshot.jobs[2].hints = alike(1).jobs[0].hints;
  snapshot.jobs[2].attained_service = 1e6;
  snapshot.jobs[1].nodes = {0};
  CHECK(answer(snapshot).jobs[2].why ==
        "it waits because 1 running job will probably end sooner than it would");
}

// What the policy does with a snapshot's jobs round by round.
class Course {
 public:
  explicit Course(Snapshot snapshot) : now(std::move(snapshot)) {}

  // Decides, and lets the time pass. Returns the number of changed allocations.
  int round(double seconds) {
    const Decision decision = answer(now);
    int changes = 0;
    for (size_t j = 0; j < now.jobs.size(); ++j) {
      JobSnapshot& job = now.jobs[j];
      const NodeList& nodes = decision.jobs[j].nodes;
      if (nodes != job.nodes) {
        ++changes;
        if (job.attained_service > 0) ++job.restarts;
        job.nodes = nodes;
      }
      const auto count = static_cast<int>(nodes.size());
      job.hints.max_profiled_replicas = std::max(job.hints.max_profiled_replicas, count);
      job.age_s += seconds;
      job.attained_service += count * seconds;
    }
    return changes;
  }

  Snapshot now;
};

double goodput_of(const JobSnapshot& job, int nodes, int replicas) {
  const JobHints& hints = job.hints;
  return GoodputModel(*hints.perf, *hints.grad, hints.batch->initial)
      .optimize(nodes, replicas, *hints.batch)
      .goodput;
}

// The best on 4 nodes of 4 GPUs.
double best_goodput(const JobSnapshot& job) {
  double best = 0;
  const int most = std::min(16, replica_limit(job, 1e6));
  for (int replicas = 1; replicas <= most; ++replicas) {
    if (replicas <= 4) best = std::max(best, goodput_of(job, 1, replicas));
    if (replicas > 4 && replicas % 4 == 0) {
      best = std::max(best, goodput_of(job, replicas / 4, replicas));
    }
  }
  return best;
}

TEST_CASE("a job that is alone gets its best allocation soon, however dear changes are") {
  for (const double cost_s : {0.1, 1.0, 10.0, 60.0, 250.0, 3600.0}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      INFO("cost " << cost_s << " s, seed " << seed);
      SnapshotShape shape;
      shape.nodes = 4;
      shape.jobs = 1;
      shape.running = 0;
      Course course(random_snapshot(seed, shape));
      JobSnapshot& job = course.now.jobs[0];
      job.preemptible = true;
      job.age_s = job.attained_service = 0;
      job.hints.remaining_progress.reset();
      job.hints.rescale_cost_s = cost_s;
      job.hints.max_profiled_replicas = 1;
      if (job.min_replicas > 1) continue;
      const double best = best_goodput(job);
      const auto now = [&] {
        const auto count = static_cast<int>(job.nodes.size());
        return count == 0 ? 0 : goodput_of(job, distinct_nodes(job.nodes), count);
      };
      // Large gains come first: three quarters after 100 costs, the last 5 % after 1000.
      const double round_s = std::max(cost_s, 1.0);
      constexpr double kRounds = 10;  // for what it has to measure first
      while (job.age_s < 100 * cost_s + kRounds * round_s) course.round(round_s);
      CHECK(now() >= 0.75 * best);
      while (job.age_s < 1000 * cost_s) course.round(10 * round_s);
      CHECK(now() >= 0.95 * best);
      CHECK(job.restarts <= 12);
    }
  }
}

TEST_CASE("a new job soon has a look, however long the others are and whether that is known") {
  for (const bool known : {false, true}) {
    for (const double cost_s : {1.0, 30.0}) {
      for (double length_s = 60 * cost_s; length_s <= 36000 * cost_s; length_s *= 2) {
        INFO("length " << length_s << " s, cost " << cost_s << " s, known " << known);
        Snapshot snapshot = alike(3);
        snapshot.nodes = {{"node", "", {2}}};
        for (size_t j = 0; j < 2; ++j) {
          JobSnapshot& job = snapshot.jobs[j];
          job.nodes = {0};
          job.age_s = job.attained_service = length_s / 2;
          job.hints.rescale_cost_s = 0.05;
          job.hints.start_cost_s = cost_s;
          if (known) {
            job.hints.remaining_progress = length_s / 2 * goodput_of(job, 1, 1) / 64;
          }
        }
        snapshot.jobs[2].hints = {};
        snapshot.jobs[2].age_s = 0;
        Course course(snapshot);
        const double round_s = cost_s;
        while (course.now.jobs[2].nodes.empty() && course.now.jobs[2].age_s < 1000 * cost_s) {
          course.round(round_s);
        }
        CHECK(course.now.jobs[2].age_s <= 10 * cost_s + 2 * round_s);
      }
    }
  }
}

TEST_CASE("cheap changes are no reason to change all the time") {
  Snapshot snapshot = alike(5);
  for (JobSnapshot& job : snapshot.jobs) {
    job.age_s = 0;
    job.hints.rescale_cost_s = 0;
    job.hints.start_cost_s = 0;
  }
  Course course(snapshot);
  int changes = 0;
  for (int round = 0; round < 1000; ++round) changes += course.round(10);
  CHECK(changes <= 100);
}

}  // namespace
}  // namespace adaptdl
