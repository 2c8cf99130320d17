#include "core/sim/baselines/tiresias.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/sim/baselines/published_policy.h"

namespace adaptdl {
namespace {

int wanted_replicas(const JobSnapshot& job) {
  if (pinned(job)) return static_cast<int>(job.nodes.size());
  return std::clamp(job.requested_replicas, std::max(job.min_replicas, 1), job.max_replicas);
}

}  // namespace

// In the snapshot's order: of two jobs that change queues at once, the earlier one goes first.
void Tiresias::update_queues(const Snapshot& snapshot) {
  for (auto& [name, known] : known_) known.present = false;
  for (const JobSnapshot& job : snapshot.jobs) {
    const auto [found, is_new] = known_.try_emplace(job.name);
    Known& known = found->second;
    known.present = true;
    const double elapsed_s = job.age_s - known.age_s;
    known.age_s = job.age_s;
    if (is_new) {
      queues_[0].push_back(job.name);
    } else if (!job.nodes.empty()) {
      known.executed_s += elapsed_s;
      const auto place = std::find(queues_[0].begin(), queues_[0].end(), job.name);
      if (place != queues_[0].end() && known.executed_s * wanted_replicas(job) >= kThreshold) {
        queues_[0].erase(place);
        queues_[1].push_back(job.name);
      }
    }
  }
  std::erase_if(known_, [](const auto& entry) { return !entry.second.present; });
  for (auto& queue : queues_) {
    std::erase_if(queue, [this](const std::string& name) { return !known_.contains(name); });
  }
}

Decision Tiresias::decide(const Snapshot& snapshot, uint64_t, const SearchBudget&) {
  check_published(snapshot, "tiresias");
  update_queues(snapshot);

  const size_t jobs = snapshot.jobs.size();
  std::map<std::string, int> index;
  int64_t left = total_gpus(snapshot);
  for (size_t j = 0; j < jobs; ++j) {
    index[snapshot.jobs[j].name] = static_cast<int>(j);
    if (pinned(snapshot.jobs[j])) left -= wanted_replicas(snapshot.jobs[j]);
  }

  Decision decision;
  decision.jobs.resize(jobs);
  std::vector<int> wanted(jobs, 0), order;
  for (size_t queue = 0; queue < 2; ++queue) {
    for (const std::string& name : queues_[queue]) {
      const int job = index.at(name);
      const auto j = static_cast<size_t>(job);
      const int replicas = wanted_replicas(snapshot.jobs[j]);
      order.push_back(job);
      const bool runs = pinned(snapshot.jobs[j]) || replicas <= left;
      if (runs) wanted[j] = replicas;
      if (runs && !pinned(snapshot.jobs[j])) left -= replicas;
      decision.jobs[j].why = fmt::format(
          "it {} in queue {} after {:.1f} of {:.0f} GPU hours", runs ? "runs" : "waits for GPUs",
          queue + 1, known_.at(name).executed_s * replicas / 3600, kThreshold / 3600);
    }
  }
  const std::vector<NodeList> placed = place_on_emptiest(snapshot, wanted, order);
  for (size_t j = 0; j < jobs; ++j) decision.jobs[j].nodes = placed[j];
  return decision;
}

}  // namespace adaptdl
