// Measures the time of policies, and their objective at a deadline. Prints one line of JSON for
// each policy and cluster size: the time of a call (median and maximum), and the gap between the
// objective at the deadline and that of a search with a hundred times the work in 60 s.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/formats/json.h"
#include "core/policy/policy.h"
#include "tests/unit/policy/random_snapshot.h"

using namespace adaptdl;

namespace {

struct Size {
  const char* name;
  int jobs, nodes, gpus;
  double deadline_s;  // 0: none
  int snapshots;
};

// Allocates all jobs at once, from no allocation: the hardest round.
Snapshot cold(uint64_t seed, const Size& size) {
  SnapshotShape shape;
  shape.nodes = size.nodes;
  shape.gpus = {size.gpus};
  shape.jobs = size.jobs;
  shape.running = 0;
  return random_snapshot(seed, shape);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const PolicyInfo& info, const Size& size) {
  const auto policy = make_policy(info.name);
  std::vector<double> seconds, short_of;
  int cut = 0;
  for (int s = 0; s < size.snapshots; ++s) {
    const Snapshot snapshot = cold(static_cast<uint64_t>(s), size);
    SearchBudget budget;
    const TimePoint started = Monotonic::now();
    if (size.deadline_s > 0) {
      budget.work *= 100;  // the deadline is the limit
      budget.deadline =
          started + std::chrono::duration_cast<Monotonic::duration>(Seconds(size.deadline_s));
    }
    const Decision quick = policy->decide(snapshot, 1, budget);
    seconds.push_back(seconds_since(started));
    cut += quick.cut_short;
    SearchBudget generous;
    generous.work *= 100;
    generous.deadline = Monotonic::now() + std::chrono::seconds(60);
    const Decision best = policy->decide(snapshot, 1, generous);
    short_of.push_back(std::abs(best.objective - quick.objective) /
                       std::max(std::abs(best.objective), 1e-12));
  }
  const Json record = {
      {"name", "policy_call"},
      {"policy", info.name},
      {"size", size.name},
      {"unit", "s"},
      {"median", median(seconds)},
      {"max", *std::max_element(seconds.begin(), seconds.end())},
      {"n", size.snapshots},
      {"deadline_s", size.deadline_s > 0 ? Json(size.deadline_s) : Json(nullptr)},
      {"cut_short", cut},
      {"objective_short_of_best", *std::max_element(short_of.begin(), short_of.end())}};
  std::printf("%s\n", dump_json(record).c_str());
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (const Size& size : {Size{"160 jobs on 64 GPUs", 160, 16, 4, 0, 21},
                           Size{"512 jobs on 2048 GPUs", 512, 256, 8, 0.3, 5},
                           Size{"2000 jobs on 10000 GPUs", 2000, 1250, 8, 2, 3}}) {
    for (const PolicyInfo& info : policies()) measure(info, size);
  }
}
