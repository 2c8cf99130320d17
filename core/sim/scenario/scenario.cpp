#include "core/sim/scenario/scenario.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/sim/experiment.h"
#include "core/sim/profiles/profile_yaml.h"

namespace adaptdl {
namespace {

using FaultKind = ScenarioFault::Kind;

constexpr size_t kMaxScenario = 4 << 20;
constexpr double kLongest = 1e9;

const std::vector<std::pair<std::string, FaultKind>> kKinds = {
    {"node_loss", FaultKind::node_loss},       {"spot_notice", FaultKind::spot_notice},
    {"late_hints", FaultKind::late_hints},     {"lost_hints", FaultKind::lost_hints},
    {"broken_hints", FaultKind::broken_hints}, {"extreme_hints", FaultKind::extreme_hints},
    {"clock_jump", FaultKind::clock_jump}};

class Reader {
 public:
  explicit Reader(const std::string& path) { scenario_.path = path; }

  Scenario read() {
    YamlMapping top(parse_yaml(read_file(scenario_.path, kMaxScenario), scenario_.path));
    scenario_.about = top.require("about").text();
    read_setting(top);
    read_policies(top.find("policies"));
    read_options(top);
    if (const YamlNode faults = top.find("faults"); faults.present()) {
      for (const YamlNode& fault : faults.list()) scenario_.faults.push_back(fault_from(fault));
    }
    if (const YamlNode must = top.find("must"); must.present()) read_properties(YamlMapping(must));
    top.finish();
    return std::move(scenario_);
  }

 private:
  // A path relative to the scenario's folder.
  std::string beside(const YamlNode& path) const {
    return join_path(parent_directory(scenario_.path), path.text());
  }

  double seconds(const YamlNode& node, bool negative = false) const {
    std::string text = node.text();
    const bool below = negative && text.starts_with('-');
    if (below) text.erase(0, 1);
    const std::string place = fmt::format("{}:{}: {}", scenario_.path, node.line(), node.path());
    return parse_duration(text, place, 0, kLongest) * (below ? -1 : 1);
  }

  void read_setting(YamlMapping& top) {
    const YamlNode cluster = top.find("cluster");
    scenario_.nodes =
        cluster.present() ? read_cluster(beside(cluster)) : cluster_from(top.require("nodes"));
    const YamlNode profiles = top.require("profiles");
    if (profiles.is_scalar()) {
      scenario_.profiles = read_profiles(beside(profiles));
    } else {
      YamlMapping by_name(profiles);
      for (const std::string& name : by_name.keys()) {
        scenario_.profiles.emplace(name, Profile(profile_from(by_name.require(name), name)));
      }
    }
    std::vector<std::string> applications;
    for (const auto& [name, profile] : scenario_.profiles) applications.push_back(name);
    const YamlNode workload = top.find("workload");
    scenario_.workload = workload.present()
                             ? read_workload(beside(workload), applications)
                             : workload_from(top.require("jobs"), scenario_.path, applications);
  }

  void read_policies(const YamlNode& node) {
    if (!node.present()) {
      for (const PolicyInfo& policy : policies()) {
        scenario_.policies.emplace_back(policy.name, std::map<std::string, double>());
      }
      return;
    }
    YamlMapping by_name(node);
    for (const std::string& name : by_name.keys()) {
      const YamlNode policy = by_name.require(name);
      YamlMapping from(policy, true);
      std::map<std::string, double> options;
      for (const std::string& key : from.keys()) options[key] = from.require(key).number();
      const auto known = simulated_policies();
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        policy.refuse(
            fmt::format("unknown policy {}; the policies are {}", name, fmt::join(known, ", ")));
      }
      scenario_.policies.emplace_back(name, options);
    }
  }

  void read_options(YamlMapping& top) {
    top.read("seeds", scenario_.seeds, 1, 1000);
    top.read("jitter_s", scenario_.jitter_s, 0, 86'400);
    top.read("interval_s", scenario_.rounds.interval_s, above(0));
    top.read("event_gap_s", scenario_.rounds.event_gap_s, at_least(0));
    top.read("rescale_s", scenario_.cluster.rescale_s, at_least(0));
    top.read("lengths_known", scenario_.cluster.lengths_known);
    top.read("interference", scenario_.cluster.interference, from_to_below(0, 1));
  }

  ScenarioFault fault_from(const YamlNode& node) const {
    YamlMapping from(node);
    ScenarioFault fault;
    from.require("kind");
    from.read_choice("kind", fault.kind, kKinds);
    const bool at_node = fault.kind == FaultKind::node_loss || fault.kind == FaultKind::spot_notice;
    if (at_node) {
      const YamlNode name = from.require("node");
      fault.node = name.text();
      const auto is_it = [&](const ClusterNode& known) { return known.name == fault.node; };
      if (std::none_of(scenario_.nodes.begin(), scenario_.nodes.end(), is_it)) {
        name.refuse("unknown node " + fault.node);
      }
    } else {
      from.read("jobs", fault.jobs);
    }
    if (const YamlNode at = from.find("at"); at.present()) fault.from_s = seconds(at);
    if (fault.kind == FaultKind::spot_notice || fault.kind == FaultKind::late_hints ||
        fault.kind == FaultKind::clock_jump) {
      fault.by_s = seconds(from.require("by"), fault.kind == FaultKind::clock_jump);
    }
    if (fault.kind == FaultKind::lost_hints) {
      from.read("probability", fault.probability, between(0, 1));
    }
    if (const YamlNode until = from.find("until"); until.present()) {
      fault.until_s = seconds(until);
      const double earliest =
          fault.from_s + (fault.kind == FaultKind::spot_notice ? fault.by_s : 0);
      if (fault.until_s <= earliest) until.refuse("the fault ends before it starts");
    }
    from.finish();
    return fault;
  }

  // `read` converts a value to a number.
  template <typename F>
  ScenarioLimit limit(const YamlNode& node, F&& read) const {
    if (!node.present()) return {};
    if (!node.is_mapping()) return {{"", read(node)}};
    ScenarioLimit limits;
    YamlMapping by_policy(node);
    for (const auto& [name, options] : scenario_.policies) {
      if (const YamlNode own = by_policy.find(name); own.present()) limits[name] = read(own);
    }
    by_policy.finish();
    return limits;
  }

  void read_properties(YamlMapping must) {
    const auto time = [this](const YamlNode& node) { return seconds(node); };
    scenario_.longest_wait_s = limit(must.find("longest_wait"), time);
    scenario_.mean_jct_s = limit(must.find("mean_jct"), time);
    scenario_.max_restarts = limit(must.find("max_restarts"), [](const YamlNode& node) {
      return static_cast<double>(node.integer(0, 1'000'000));
    });
    if (const YamlNode names = must.find("unfinished"); names.present()) {
      for (const YamlNode& name : names.list()) {
        const auto is_it = [&](const WorkloadJob& job) { return job.name == name.text(); };
        if (std::none_of(scenario_.workload.begin(), scenario_.workload.end(), is_it)) {
          name.refuse("unknown job " + name.text());
        }
        scenario_.unfinished.push_back(name.text());
      }
    }
    if (const YamlNode problems = must.find("expect_problems"); problems.present()) {
      for (const YamlNode& part : problems.list()) {
        scenario_.expect_problems.push_back(part.text());
      }
    }
    must.finish();
  }

  Scenario scenario_;
};

}  // namespace

Scenario read_scenario(const std::string& path) {
  return Reader(path).read();
}

}  // namespace adaptdl
