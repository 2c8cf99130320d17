#include "cli/commands/simulate_setup.h"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

double number(const Arguments& arguments, std::string_view flag, double low, double high) {
  try {
    return parse_double(arguments.text(flag), fmt::format("--{}", flag), low, high);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

std::string meant(const std::string& word, const std::vector<std::string>& known) {
  return did_you_mean(word, {known.begin(), known.end()});
}

std::vector<std::string> option_names(const std::string& policy) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) {
    if (info.name != policy) continue;
    for (const PolicyOption& option : info.options) names.emplace_back(option.name);
  }
  return names;
}

// "fairness=-1", "pollux.fairness=-1".
void give_option(const std::string& setting, std::vector<SimulatedPolicy>& to) {
  const std::string flag = fmt::format("--policy-option {}", setting);
  const size_t equals = setting.find('=');
  if (equals == std::string::npos) {
    throw UsageError(fmt::format("{}: write NAME=VALUE or POLICY.NAME=VALUE", flag));
  }
  const std::string key = setting.substr(0, equals);
  const size_t dot = key.find('.');
  const std::string policy = dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
  double value = 0;
  try {
    value = parse_double(setting.substr(equals + 1), "--policy-option " + key);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  std::vector<std::string> known, asked;
  bool taken = false;
  for (SimulatedPolicy& one : to) {
    asked.push_back(one.name);
    if (!policy.empty() && one.name != policy) continue;
    for (const std::string& option : option_names(one.name)) {
      known.push_back(option);
      if (option != name) continue;
      one.options[name] = value;
      taken = true;
    }
  }
  if (taken) return;
  if (!policy.empty() && std::find(asked.begin(), asked.end(), policy) == asked.end()) {
    throw UsageError(fmt::format("{}: {} is not simulated; --policy names {}", flag, policy,
                                 fmt::join(asked, ", ")));
  }
  throw UsageError(fmt::format("{}: unknown option; {} {} {}.{}", flag,
                               policy.empty() ? fmt::format("{}", fmt::join(asked, ", ")) : policy,
                               !policy.empty() || asked.size() == 1 ? "has" : "have",
                               known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")),
                               meant(name, known)));
}

// Lets the policies check the ranges of their options.
void check_options(const SimulatedPolicy& policy) {
  if (policy.options.empty()) return;
  try {
    make_policy(policy.name, policy.options);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--policy-option: {}", error.what()));
  }
}

}  // namespace

std::vector<SimulatedPolicy> simulated_policies_of(const Arguments& arguments) {
  const std::vector<std::string> known = simulated_policies();
  std::vector<SimulatedPolicy> chosen;
  std::string name;
  for (const char letter : arguments.text("policy") + ",") {
    if (letter != ',') {
      name += letter;
      continue;
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw UsageError(fmt::format("--policy: unknown policy '{}'; the policies are {}.{}", name,
                                   fmt::join(known, ", "), meant(name, known)));
    }
    const auto same = [&](const SimulatedPolicy& other) { return other.name == name; };
    if (std::any_of(chosen.begin(), chosen.end(), same)) {
      throw UsageError(fmt::format("--policy: {} is named twice", name));
    }
    chosen.push_back({std::move(name), {}});
    name.clear();
  }
  for (const std::string& setting : arguments.list("policy-option")) give_option(setting, chosen);
  for (const SimulatedPolicy& policy : chosen) check_options(policy);
  return chosen;
}

ExperimentOptions experiment_options(const Arguments& arguments) {
  ExperimentOptions options;
  options.interval_s = number(arguments, "interval", 1, 86400);
  if (arguments.given("event-gap")) options.event_gap_s = number(arguments, "event-gap", 1, 86400);
  options.rescale_s = std::nullopt;
  if (arguments.text("rescale-cost") != "measured") {
    try {
      options.rescale_s = number(arguments, "rescale-cost", 0, 86400);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}, or measured", error.what()));
    }
  }
  options.lengths_known = arguments.text("lengths") == "known";
  options.interference = number(arguments, "interference", 0, 0.99);
  if (arguments.text("rules") == "sia") {
    options.rules = {
        .same_shape_free = true, .finish_changes = true, .speeds_known = true, .costs_told = true};
  }
  options.seed = static_cast<uint64_t>(arguments.integer("seed"));
  if (!arguments.given("cluster")) {
    options.nodes = uniform_cluster(static_cast<int>(arguments.integer("nodes")),
                                    static_cast<int>(arguments.integer("gpus-per-node")));
    return options;
  }
  if (arguments.given("nodes") || arguments.given("gpus-per-node")) {
    throw UsageError("--cluster defines the nodes: omit --nodes and --gpus-per-node");
  }
  options.nodes = read_cluster(arguments.text("cluster"));
  return options;
}

void check_writable(const std::string& path) {
  struct stat info {};
  if (is_directory(path)) fail("{}: is a folder; give the name of a file", path);
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    fail("{}: is a device or pipe, and would be replaced; give the name of a file", path);
  }
  const std::string target = path_exists(path) ? path : parent_directory(path);
  if (access(target.c_str(), W_OK) != 0) fail_errno(errno, fmt::format("{}: cannot write", path));
}

}  // namespace adaptdl::cli
