#include "core/cluster/kubernetes/nodes/node_expander.h"

#include <algorithm>

#include "core/base/crypto.h"
#include "core/base/log.h"
#include "core/formats/json_fields.h"
#include "core/policy/pollux/pollux_cluster_size.h"
#include "core/sched/policy_input.h"

namespace adaptdl::kubernetes {

namespace {

constexpr Seconds kSearch{0.5};  // for the number of nodes, at most
constexpr const char* kPlaceholders = "adaptdl/placeholder=true";

Placeholder read_placeholder(const Json& pod) {
  const std::string phase = text_at_pointer(pod, "/status/phase");
  return {kube::metadata_text(pod, "name"), kube::metadata_text(pod, "uid"),
          text_at_pointer(pod, "/spec/nodeName"),
          phase == "Failed" || phase == "Succeeded" ||
              !kube::metadata_text(pod, "deletionTimestamp").empty()};
}

std::vector<Placeholder> list_placeholders(kube::Client& client, const std::string& name_space) {
  std::vector<Placeholder> result;
  for (const Json& pod : client.list(kube::kPods.in(name_space), {.labels = kPlaceholders}).items) {
    result.push_back(read_placeholder(pod));
  }
  return result;
}

void remove_placeholder(kube::Client& client, const std::string& name_space,
                        const Placeholder& one) {
  kube::DeleteOptions options;
  options.uid = one.uid;
  client.remove(kube::kPods.in(name_space, one.name), options);
}

}  // namespace

bool has_placeholders(kube::Client& client, const std::string& name_space) {
  return !list_placeholders(client, name_space).empty();
}

void remove_placeholders(kube::Client& client, const std::string& name_space) {
  for (const Placeholder& one : list_placeholders(client, name_space)) {
    remove_placeholder(client, name_space, one);
  }
}

NodeExpander::NodeExpander(kube::Client& client, const ClusterCache& cache, ExpanderOptions options)
    : client_(client), cache_(cache), options_(std::move(options)), steady_(options_.patience_s) {}

int NodeExpander::wish() {
  std::vector<JobObject> jobs;
  for (KnownJob& known : cache_.jobs()) {
    if (known.problem.empty()) jobs.push_back(std::move(known.job));
  }
  const double now = monotonic_now_s();
  std::vector<NodeFacts> nodes = cache_.nodes();
  std::erase_if(nodes, [](const NodeFacts& node) { return !node.takes_pods(); });
  const SchedulerView seen =
      scheduler_view(nodes, cache_.uses(), jobs, options_.pods, wall_now_s(), now);
  std::vector<std::string> ignored;  // the allocator reports them
  const Snapshot snapshot = policy_input(seen.nodes, seen.jobs, now, ignored);
  const auto largest = std::max_element(
      snapshot.nodes.begin(), snapshot.nodes.end(),
      [](const NodeSnapshot& a, const NodeSnapshot& b) { return a.capacity[0] < b.capacity[0]; });
  if (largest == snapshot.nodes.end() || largest->capacity[0] <= 0) {
    // Without a node its capacity is unknown, so ask for one.
    return std::clamp(snapshot.jobs.empty() ? 0 : 1, options_.min_nodes, options_.max_nodes);
  }
  SearchBudget budget;
  budget.deadline = Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(kSearch);
  const ClusterSizeWish wished =
      wish_cluster_size(snapshot, *largest, options_.min_nodes, options_.max_nodes, {}, {}, budget);
  if (wished.why != said_) log_info("expander: {}", wished.why);
  said_ = wished.why;
  return wished.nodes;
}

void NodeExpander::look() {
  const int wanted = steady_.add(monotonic_now_s(), wish());
  std::vector<Placeholder> present = list_placeholders(client_, options_.name_space);
  // A node that gets no more pods needs none, and another is to come in its place.
  for (const NodeFacts& node : cache_.nodes()) {
    if (node.takes_pods()) continue;
    for (Placeholder& one : present) one.over |= one.node == node.name;
  }
  std::map<std::string, int> replicas;
  for (const KnownJob& known : cache_.jobs()) {
    for (const std::string& node : known.job.status.allocation) ++replicas[node];
  }
  const PlaceholderPlan plan = plan_placeholders(present, wanted, replicas);
  for (const Placeholder& one : plan.remove) {
    remove_placeholder(client_, options_.name_space, one);
  }
  for (int i = 0; i < plan.make; ++i) {
    const std::string name = "adaptdl-placeholder-" + to_hex(random_bytes(5));
    client_.create(kube::kPods.in(options_.name_space),
                   make_placeholder(options_.name_space, name, options_.image, options_.overlay));
  }
}

}  // namespace adaptdl::kubernetes
