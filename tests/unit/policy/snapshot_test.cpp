#include "core/policy/snapshot.h"

#include <doctest/doctest.h>
#include <functional>
#include <limits>

#include "core/base/error.h"
#include "core/goodput/goodput_table.h"
#include "core/policy/policy.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

TEST_CASE("what no snapshot may hold is refused with the name of the job or node") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* name;  // must be in the message
    std::function<void(Snapshot&)> spoil;
  };
  const Case cases[] = {
      {"resource", [](Snapshot& s) { s.resources.clear(); }},
      {"node-00001", [](Snapshot& s) { s.nodes[1].capacity = {}; }},
      {"node-00001", [](Snapshot& s) { s.nodes[1].capacity = {-1}; }},
      {"node-00000", [](Snapshot& s) { s.nodes[1].name = s.nodes[0].name; }},
      {"job-00000", [](Snapshot& s) { s.jobs[1].name = s.jobs[0].name; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].request = {0}; }},
      {"job-00001",
       [](Snapshot& s) {
         s.jobs[1].request = {1, 1};
       }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].request = {-1}; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].nodes = {99}; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].nodes = {-1}; }},
      {"job-00001", [&](Snapshot& s) { s.jobs[1].age_s = nan; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].age_s = -1; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].restarts = -1; }},
      {"job-00001", [&](Snapshot& s) { s.jobs[1].attained_service = nan; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].max_replicas = 0; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].min_replicas = s.jobs[1].max_replicas + 1; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].min_replicas = -1; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].requested_replicas = 0; }},
      {"job-00001", [&](Snapshot& s) { s.jobs[1].hints.perf->alpha_c = nan; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].hints.perf->gamma = 0; }},
      {"job-00001", [&](Snapshot& s) { s.jobs[1].hints.grad->var = nan; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].hints.batch->max = 0; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].hints.batch->atomic_min = 0; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].hints.max_profiled_replicas = -1; }},
      {"job-00001", [&](Snapshot& s) { s.jobs[1].hints.remaining_progress = nan; }},
      {"job-00001", [](Snapshot& s) { s.jobs[1].hints.rescale_cost_s = -1; }},
  };
  const Snapshot good = random_snapshot(1, {});
  CHECK_NOTHROW(check_snapshot(good));
  for (const auto& [name, spoil] : cases) {
    Snapshot bad = good;
    spoil(bad);
    std::string message;
    try {
      check_snapshot(bad);
    } catch (const Error& error) {
      message = error.what();
    }
    INFO(message);
    CHECK(message.find(name) != std::string::npos);
  }
}

TEST_CASE("a job may grow to twice what it has measured, within its own bounds") {
  JobSnapshot job;
  job.max_replicas = 16;
  CHECK(replica_limit(job) == 1);
  job.hints.max_profiled_replicas = 3;
  CHECK(replica_limit(job) == 6);
  CHECK(rescale_cost_s(job, 30) == 30);
  job.hints.rescale_cost_s = 5;
  CHECK(rescale_cost_s(job, 30) == 5);
  job.hints.max_profiled_replicas = 2'000'000'000;
  CHECK(replica_limit(job) == 16);
  job.hints.batch = BatchBounds{.initial = 32, .max = 100, .atomic_min = 32};
  CHECK(replica_limit(job) == 3);
}

TEST_CASE("a job that will never measure itself may grow to its maximum if it can be restarted") {
  JobSnapshot job;
  job.max_replicas = 16;
  job.restartable = true;
  CHECK(is_silent(job));
  CHECK(replica_limit(job) == 16);
  CHECK(rescale_cost_s(job, 30) == kAssumedRestart);
  CHECK(rescale_cost_s(job, 600) == 600);
  job.hints.max_profiled_replicas = 3;
  CHECK_FALSE(is_silent(job));
  CHECK(replica_limit(job) == 6);
}

TEST_CASE("distinct nodes") {
  CHECK(distinct_nodes({}) == 0);
  CHECK(distinct_nodes({3, 3}) == 1);
  CHECK(distinct_nodes({3, 1, 3, 2}) == 3);
}

TEST_CASE("a table of goodput knows what the model says, and counts replicas without one") {
  GoodputTable nothing_known;
  CHECK(nothing_known.at(0, 0) == 0);
  CHECK(nothing_known.at(2, 7) == 7);
  CHECK(GoodputTable(3, 0.5).at(2, 4) == doctest::Approx(6));
  const JobHints hints = random_snapshot(2, {}).jobs[0].hints;
  const GoodputModel model(*hints.perf, *hints.grad, hints.batch->initial);
  GoodputTable table(model, *hints.batch);
  for (int again = 0; again < 2; ++again) {
    CHECK(table.at(0, 0) == 0);
    CHECK(table.at(1, 3) == model.optimize(1, 3, *hints.batch).goodput);
    CHECK(table.at(3, 5) == model.optimize(2, 5, *hints.batch).goodput);
  }
}

TEST_CASE("unknown policies are refused by name") {
  CHECK_THROWS_WITH_AS(make_policy("fastest"),
                       doctest::Contains("unknown policy fastest; the policies are:"), Error);
}

}  // namespace
}  // namespace adaptdl
