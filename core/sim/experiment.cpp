#include "core/sim/experiment.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/sim/baselines/optimus.h"
#include "core/sim/baselines/tiresias.h"
#include "core/sim/fairness.h"

namespace adaptdl {
namespace {

constexpr int kMaxNodes = 100'000, kMaxGpus = 1024;

int64_t gpus_of(const ClusterNode& node) {
  const auto found = node.free_for_jobs.find("gpu");
  return found == node.free_for_jobs.end() ? 0 : found->second;
}

// null for a number that was not simulated (negative).
Json known(double value) {
  return value < 0 ? Json(nullptr) : Json(value);
}

}  // namespace

std::vector<std::string> simulated_policies() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) names.emplace_back(policy.name);
  names.emplace_back("tiresias");
  names.emplace_back("optimus");
  return names;
}

bool adapts_batch(std::string_view policy) {
  const auto known = policies();
  return std::any_of(known.begin(), known.end(),
                     [&](const PolicyInfo& info) { return info.name == policy && info.adapts; });
}

void check_nodes(std::string_view policy, const std::vector<ClusterNode>& nodes) {
  if (policy != "tiresias" && policy != "optimus") return;
  const ClusterNode* first = nullptr;
  for (const ClusterNode& node : nodes) {
    if (gpus_of(node) == 0) continue;
    if (first == nullptr) first = &node;
    if (node.accelerator == first->accelerator) continue;
    fail(
        "policy {} supports one kind of GPU, but the cluster has '{}' and '{}'; leave the policy "
        "out",
        policy, first->accelerator, node.accelerator);
  }
}

std::unique_ptr<Policy> make_simulated_policy(const std::string& name,
                                              const std::map<std::string, double>& options,
                                              const SimCluster& cluster,
                                              const std::vector<ClusterNode>& nodes) {
  // The first node's with GPUs: for these policies the only one, see check_nodes().
  const auto has_gpu = [](const ClusterNode& node) { return gpus_of(node) > 0; };
  const auto first = std::find_if(nodes.begin(), nodes.end(), has_gpu);
  const std::string kind = first == nodes.end() ? "" : first->accelerator;
  const auto truth = [&cluster, kind](const std::string& job) {
    const SimCluster::Job& found = cluster.job(job);
    return TrueJob{&found.state.profile(), kind, found.state.epochs_finished(),
                   found.spec.batch_size};
  };
  if (name != "tiresias" && name != "optimus") return make_policy(name, options);
  if (!options.empty()) fail("policy {}: unknown option {}", name, options.begin()->first);
  if (name == "tiresias") return std::make_unique<Tiresias>();
  return std::make_unique<Optimus>(truth);
}

ExperimentResult run_experiment(const std::string& policy, const std::vector<WorkloadJob>& workload,
                                const std::map<std::string, Profile>& profiles,
                                const ExperimentOptions& options, const ExperimentHooks& hooks) {
  ADAPTDL_CHECK(!options.nodes.empty());
  SimCluster cluster(options.nodes, workload, profiles,
                     {.rescale_s = options.rescale_s.value_or(-1),
                      .lengths_known = options.lengths_known,
                      .adapt_batch = adapts_batch(policy),
                      .interference = options.interference,
                      .rules = options.rules});
  const auto chosen = make_simulated_policy(policy, options.policy_options, cluster, options.nodes);
  Timeline timeline(options.nodes);
  cluster.on_event = [&](const TimelineEvent& event) {
    const Json record = timeline.add(event);
    if (hooks.on_record) hooks.on_record(record);
  };
  AllocatorOptions rounds{.interval_s = options.interval_s, .seed = options.seed};
  if (options.event_gap_s) rounds.event_gap_s = *options.event_gap_s;
  Simulation simulation(cluster, *chosen, rounds);

  ExperimentResult result{.policy = policy};
  while (simulation.step()) {
    if (!hooks.go_on) continue;
    ExperimentProgress progress{cluster.now_s(), 0, static_cast<int>(workload.size())};
    for (const auto& job : cluster.all_jobs()) progress.finished += job.completed_s >= 0;
    if (!hooks.go_on(progress)) {
      result.interrupted = true;
      break;
    }
  }
  timeline.close(cluster.now_s());
  result.jobs = simulation.results();
  result.spans = timeline.spans();
  result.problems = simulation.problems();

  add_fairness(result.jobs, profiles, options.nodes, options.rescale_s.value_or(-1));
  result.summary = summarise(result.jobs, simulation.policy_times());
  return result;
}

std::vector<ClusterNode> uniform_cluster(int count, int gpus) {
  std::vector<ClusterNode> nodes;
  for (int n = 0; n < count; ++n) {
    nodes.push_back({fmt::format("node-{}", n), "", {{"gpu", gpus}}});
  }
  return nodes;
}

std::vector<ClusterNode> cluster_from(const YamlNode& list) {
  std::vector<ClusterNode> nodes;
  std::set<std::string> names;
  for (const YamlNode& item : list.list(1)) {
    YamlMapping entry(item);
    std::string name, accelerator;
    int count = 1;
    const auto gpus = entry.require("gpus").integer(0, kMaxGpus);
    entry.read("count", count, 1, kMaxNodes);
    entry.read("accelerator", accelerator);
    const bool named = entry.read("name", name);
    if (named && name.empty()) item.refuse("name: must not be empty");
    entry.finish();
    for (int i = 0; i < count; ++i) {
      const std::string full = !named      ? fmt::format("node-{}", nodes.size())
                               : count > 1 ? fmt::format("{}-{}", name, i)
                                           : name;
      if (!names.insert(full).second) {
        item.refuse(fmt::format("'{}' is the name of two nodes; give another", full));
      }
      nodes.push_back({full, accelerator, {{"gpu", gpus}}});
      if (nodes.size() > kMaxNodes) list.refuse(fmt::format("has more than {} nodes", kMaxNodes));
    }
  }
  return nodes;
}

std::vector<ClusterNode> read_cluster(const std::string& path) {
  YamlMapping top(parse_yaml(read_file(path, 1 << 20), path));
  const YamlNode list = top.require("nodes");
  std::vector<ClusterNode> nodes = cluster_from(list);
  top.finish();
  const auto has_gpu = [](const ClusterNode& node) { return gpus_of(node) > 0; };
  if (std::none_of(nodes.begin(), nodes.end(), has_gpu)) {
    list.refuse("no node has a GPU; at least one GPU is needed");
  }
  return nodes;
}

Json to_json(const JobResult& job) {
  return {{"name", job.name},
          {"application", job.application},
          {"submitted_s", job.submitted_s},
          {"started_s", known(job.started_s)},
          {"completed_s", known(job.completed_s)},
          {"jct_s", known(job.jct_s)},
          {"restarts", job.restarts},
          {"gpu_s", job.gpu_s},
          {"gpu_s_by_kind", job.gpu_s_by_kind},
          {"fairness", known(job.fairness)}};
}

Json to_json(const SimulationSummary& summary) {
  return {{"jobs", summary.jobs},
          {"completed", summary.completed},
          {"avg_jct_s", summary.avg_jct_s},
          {"p50_jct_s", summary.p50_jct_s},
          {"p99_jct_s", summary.p99_jct_s},
          {"max_jct_s", summary.max_jct_s},
          {"makespan_s", summary.makespan_s},
          {"gpu_hours", summary.gpu_hours},
          {"gpu_hours_by_kind", summary.gpu_hours_by_kind},
          {"restarts_per_job", summary.restarts_per_job},
          {"worst_fairness", summary.worst_fairness},
          {"mean_fairness", summary.mean_fairness},
          {"rounds", summary.rounds},
          {"policy_mean_s", summary.policy_mean_s},
          {"policy_max_s", summary.policy_max_s}};
}

}  // namespace adaptdl
