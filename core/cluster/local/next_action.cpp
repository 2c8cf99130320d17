#include "core/cluster/local/next_action.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace adaptdl::local {

namespace {

int slots_wanted(const JobState& job) {
  return job.cancelled ? 0 : job.wanted * job.slots_per_replica;
}

// Those of its slots that it keeps.
std::vector<int> kept(const JobState& job, const SlotLedger& slots) {
  std::vector<int> keep = job.kind == kAnyKind ? job.granted : slots.of_kind(job.granted, job.kind);
  keep.resize(std::min(keep.size(), static_cast<size_t>(slots_wanted(job))));
  return keep;
}

}  // namespace

NextAction next_action(const std::string& name, const JobState& job, const SlotLedger& slots,
                       TimePoint now) {
  using Kind = NextAction::Kind;
  const int wanted = slots_wanted(job);
  const auto available = [&] {
    return static_cast<int>(slots.available(name, job.granted, job.kind).size());
  };
  if (!job.live) {
    if (job.cancelled) return {.kind = Kind::cancel};
    if (wanted == 0) return {};
    if (now < job.retry_at) return {.again = job.retry_at};
    if (wanted > available()) return {};
    return {.kind = Kind::start, .take = wanted};
  }
  if (job.stopping) {
    if (now >= job.kill_at) return {.kind = Kind::kill};
    return {.again = job.kill_at};
  }
  if (wanted == 0) return {.kind = Kind::stop};
  if (job.finished) return {};
  std::vector<int> keep = kept(job, slots);
  const int missing = wanted - static_cast<int>(keep.size());
  if (job.scaling || (missing == 0 && keep.size() == job.granted.size())) return {};
  if (missing > available()) return {};
  if (keep.empty() && !job.granted.empty() && job.restarts) return {.kind = Kind::stop};
  return {.kind = Kind::scale, .take = missing, .keep = std::move(keep)};
}

std::string stuck_job(const std::map<std::string, const JobState*>& jobs, const SlotLedger& slots) {
  for (const auto& [name, job] : jobs) {
    if (job->scaling) return "";
  }
  const auto has = [](const std::vector<int>& list, int slot) {
    return std::find(list.begin(), list.end(), slot) != list.end();
  };
  for (const auto& [name, job] : jobs) {
    const int wanted = slots_wanted(*job);
    if (!job->live || job->stopping || job->finished || wanted == 0) continue;
    const size_t keeps = kept(*job, slots).size();
    if (static_cast<int>(keeps) == wanted || keeps == job->granted.size()) continue;
    int coming = 0, waiting = 0;  // slots that are free, or will be; that wait for a move, too
    for (int slot = 0; slot < slots.count(); ++slot) {
      if (slots.kind_of(slot) != job->kind) continue;
      const auto owner = jobs.find(slots.owner(slot));
      if (owner == jobs.end() || owner->first == name || owner->second->stopping ||
          !has(owner->second->granted, slot)) {
        ++coming;
      } else if (!has(kept(*owner->second, slots), slot)) {
        ++waiting;
      }
    }
    if (coming < wanted && coming + waiting >= wanted) return name;
  }
  return "";
}

double restart_delay_s(int failures) {
  return std::min(60.0, std::exp2(std::clamp(failures - 1, 0, 10)));
}

}  // namespace adaptdl::local
