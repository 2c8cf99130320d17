#include "core/sim/timeline.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl {
namespace {

using Kind = TimelineEvent::Kind;

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::submit:
      return "submit";
    case Kind::allocate:
      return "allocate";
    case Kind::batch:
      return "batch";
    case Kind::explain:
      return "explain";
    case Kind::finish:
      return "finish";
    case Kind::node_lost:
      return "node_lost";
    case Kind::node_back:
      return "node_back";
    case Kind::notice:
      return "notice";
  }
  return "";
}

}  // namespace

Timeline::Timeline(const std::vector<ClusterNode>& nodes) {
  for (const ClusterNode& node : nodes) {
    const auto count = node.free_for_jobs.find("gpu");
    for (int64_t i = 0; count != node.free_for_jobs.end() && i < count->second; ++i) {
      gpus_[node.name].push_back(static_cast<int>(names_.size()));
      names_.push_back(fmt::format("{}/{}", node.name, i));
    }
  }
  owner_.resize(names_.size());
}

Json Timeline::add(const TimelineEvent& event) {
  const bool about_node =
      event.kind == Kind::node_lost || event.kind == Kind::node_back || event.kind == Kind::notice;
  Json record = {{"event", kind_name(event.kind)},
                 {"time_s", event.time_s},
                 {about_node ? "node" : "job", event.name}};
  if (event.kind == Kind::allocate || event.kind == Kind::finish) hold(event);
  if (event.kind == Kind::allocate) {
    record["gpus"] = Json::array();
    for (const int gpu : held_[event.name].gpus) {
      record["gpus"].push_back(names_[static_cast<size_t>(gpu)]);
    }
  }
  if (!event.accelerator.empty()) record["accelerator"] = event.accelerator;
  const bool has_batch = event.kind == Kind::allocate || event.kind == Kind::batch;
  if (has_batch && !event.nodes.empty()) {
    record["atomic_batch"] = event.batch.atomic;
    record["accumulation"] = event.batch.accum_steps;
  }
  if (event.kind == Kind::allocate || event.kind == Kind::explain) record["why"] = event.why;
  return record;
}

void Timeline::hold(const TimelineEvent& event) {
  Held& held = held_[event.name];
  for (const int gpu : held.gpus) {
    if (event.time_s > held.since_s)
      spans_.push_back({gpu, event.name, held.since_s, event.time_s});
    if (owner(gpu) == event.name) owner(gpu).clear();
  }
  std::vector<int> next;
  for (const std::string& node : event.nodes) next.push_back(choose(node, held.gpus, event.name));
  held = {next, event.time_s};
  if (event.kind == Kind::finish) held_.erase(event.name);
}

// A GPU that the job had, so that it does not seem to move inside a node; else a free one; else one
// whose job releases it by a later event of the same time.
int Timeline::choose(const std::string& node, const std::vector<int>& before,
                     const std::string& job) {
  const std::vector<int>& there = gpus_.at(node);
  const auto better = [&](int gpu) {
    if (owner(gpu) == job) return 3;
    if (!owner(gpu).empty()) return 2;
    return std::find(before.begin(), before.end(), gpu) != before.end() ? 0 : 1;
  };
  const int chosen = *std::min_element(there.begin(), there.end(),
                                       [&](int a, int b) { return better(a) < better(b); });
  owner(chosen) = job;
  return chosen;
}

void Timeline::close(double time_s) {
  for (const auto& [job, held] : held_) {
    for (const int gpu : held.gpus) {
      if (time_s > held.since_s) spans_.push_back({gpu, job, held.since_s, time_s});
    }
  }
  held_.clear();
}

}  // namespace adaptdl
