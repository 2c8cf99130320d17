#include "tests/elastic/worker/stretch.h"

#include <algorithm>
#include <thread>

#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/yaml.h"
#include "core/goodput/fit.h"
#include "core/goodput/goodput.h"

namespace adaptdl {

namespace {

constexpr const char* kVariable = "ADAPTDL_TEST_STRETCH";
constexpr size_t kMaxFile = 16u << 20;

}  // namespace

Stretch::Stretch(std::string_view text, const std::string& path) {
  YamlMapping profile(parse_yaml(text, path, {}, {.max_bytes = kMaxFile, .max_nodes = 1'000'000}));
  std::vector<PerfObservation> observations;
  const YamlNode placements = profile.require("placements");
  for (const YamlNode& item : placements.list(1)) {
    YamlMapping row(item);
    const auto gpus = row.require("gpus").list(1);
    if (gpus.size() != 1) continue;  // on several nodes; this machine is one
    const int replicas = static_cast<int>(gpus[0].integer(1, 1 << 20));
    const double atomic = row.require("atomic").number(above(0));
    const double step = row.require("step_s").number(above(0));
    const double sync = row.require("sync_s").number(between(0, step));
    curves_[replicas].push_back({atomic, {Seconds(step), Seconds(sync)}});
    observations.push_back({1, replicas, atomic, std::max(step - sync, 1e-9), step});
  }
  if (observations.empty())
    placements.refuse("no placement is on one node; at least one is required");
  for (auto& [replicas, curve] : curves_) {
    std::sort(curve.begin(), curve.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  model_ = fit_perf_params(observations);
}

std::unique_ptr<Stretch> Stretch::from_environment() {
  const auto path = environment_variable(kVariable);
  return path ? std::make_unique<Stretch>(read_file(*path, kMaxFile), *path) : nullptr;
}

Stretch::Times Stretch::at(int replicas, double atomic) const {
  const auto found = curves_.find(replicas);
  if (found == curves_.end()) {
    const double step = optim_time(model_, 1, replicas, atomic);
    return {Seconds(step), Seconds(std::max(0.0, step - accum_time(model_, atomic)))};
  }
  const auto& curve = found->second;
  const auto above = std::lower_bound(curve.begin(), curve.end(), atomic,
                                      [](const auto& point, double x) { return point.first < x; });
  if (above == curve.begin()) return curve.front().second;
  if (above == curve.end()) return curve.back().second;
  const auto below = above - 1;
  const double weight = (atomic - below->first) / (above->first - below->first);
  const auto mix = [&](Seconds low, Seconds high) { return low + weight * (high - low); };
  return {mix(below->second.step, above->second.step), mix(below->second.sync, above->second.sync)};
}

void sleep_until_passed(TimePoint begun, Seconds time) {
  std::this_thread::sleep_until(begun + std::chrono::duration_cast<Monotonic::duration>(time));
}

}  // namespace adaptdl
