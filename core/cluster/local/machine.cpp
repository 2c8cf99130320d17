#include "core/cluster/local/machine.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/system.h"

namespace adaptdl::local {

namespace {

constexpr const char* kGpu = "nvidia.com/gpu";

int64_t millicores(int cores) {
  return int64_t{cores} * 1000;
}

// What is short for that many replicas; "" if they fit.
std::string shortage_on(const ClusterNode& node, const Resources& request, int replicas) {
  const Resources& there = node.free_for_jobs;
  for (const auto& [resource, amount] : request) {
    const int64_t have = there.contains(resource) ? there.at(resource) : 0;
    if (amount <= have / replicas) continue;
    const auto shown = [&name = resource](int64_t value) {
      if (name == "cpu") return fmt::format("{:g} cores", static_cast<double>(value) / 1000);
      if (name == "memory") return fmt::format("{:.1f} GiB", static_cast<double>(value) / 0x1p30);
      return fmt::format("{} GPUs", value);
    };
    return fmt::format("{} replica{} of {} each cannot fit: this machine has {} for jobs{}",
                       replicas, replicas == 1 ? "" : "s", shown(amount), shown(have),
                       node.accelerator.empty() ? "" : " on " + node.accelerator);
  }
  return "";
}

void set_kinds(Machine& machine, const std::vector<std::string>& kinds) {
  machine.kinds.clear();
  for (const std::string& kind : kinds) {
    const auto found = std::find(machine.kinds.begin(), machine.kinds.end(), kind);
    machine.slot_kinds.push_back(static_cast<int>(found - machine.kinds.begin()));
    if (found == machine.kinds.end()) machine.kinds.push_back(kind);
  }
}

}  // namespace

Machine this_machine(const std::optional<SlotCounts>& slots) {
  Machine machine;
  machine.name = host_name();
  machine.cores = available_cores();
  machine.memory = available_memory();
  const int gpu_count = static_cast<int>(gpus().size());
  machine.gpus = gpu_count > 0;
  const int there = machine.gpus ? gpu_count : machine.cores;
  const GpuKinds known = gpu_count > 0 ? kinds_of_gpus() : GpuKinds();
  machine.unlike_gpus = known.unlike;
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : slots.value_or(SlotCounts())) {
    kinds.insert(kinds.end(), static_cast<size_t>(count), kind);
  }
  machine.slots = slots ? static_cast<int>(kinds.size()) : there;
  if (machine.slots > there) {
    machine.gpus = false;
    if (slots->size() > 1) {
      machine.notice =
          fmt::format("{} slots of {} kinds, but {} {}: replicas are not bound to them",
                      machine.slots, slots->size(), there, gpu_count > 0 ? "GPUs" : "cores");
    }
  } else if (machine.gpus) {
    machine.slot_numbers.resize(static_cast<size_t>(machine.slots));
    std::iota(machine.slot_numbers.begin(), machine.slot_numbers.end(), 0);
    if (!slots || slots->front().first.empty()) {
      kinds = known.kinds;
      machine.notice = known.problem;
    }
  } else {
    machine.slot_numbers = affinity_core_numbers();
    machine.slot_numbers.resize(static_cast<size_t>(machine.slots));
  }
  kinds.resize(std::min(kinds.size(), static_cast<size_t>(machine.slots)));
  if (std::set(kinds.begin(), kinds.end()).size() > 1) {
    set_kinds(machine, kinds);
  } else if (!kinds.empty()) {
    machine.common_kind = kinds.front();
  }
  if (machine.gpus && machine.common_kind.empty() && !machine.has_kinds()) {
    machine.common_kind = known.common;
  }
  return machine;
}

std::string Machine::slot_kind() const {
  if (slot_numbers.empty()) return "shared";
  return gpus ? "gpu" : "core";
}

std::string slots_text(int64_t count, const std::string& slot_kind) {
  const char* word = slot_kind == "gpu" ? "GPU" : slot_kind == "core" ? "core" : "slot";
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

int Machine::slot_number(int slot) const {
  return slot_numbers.empty() ? slot : slot_numbers.at(static_cast<size_t>(slot));
}

int Machine::slot_of(int number) const {
  if (slot_numbers.empty()) return number;
  const auto found = std::find(slot_numbers.begin(), slot_numbers.end(), number);
  return found == slot_numbers.end() ? -1 : static_cast<int>(found - slot_numbers.begin());
}

int Machine::slots_of(int kind) const {
  if (slot_kinds.empty()) return slots;
  return static_cast<int>(std::count(slot_kinds.begin(), slot_kinds.end(), kind));
}

std::string Machine::kind_name(int kind) const {
  return has_kinds() ? kinds.at(static_cast<size_t>(kind)) : common_kind;
}

bool Machine::may_use(const JobSpec& spec, int kind) const {
  return among(spec.request.accelerators, kind_name(kind));
}

int Machine::most_slots(const JobSpec& spec) const {
  int most = 0;
  for (int kind = 0; kind < static_cast<int>(kinds.size()); ++kind) {
    if (may_use(spec, kind)) most = std::max(most, slots_of(kind));
  }
  return most;
}

std::vector<ClusterNode> nodes_of(const Machine& machine) {
  std::vector<ClusterNode> nodes;
  for (size_t kind = 0; kind < machine.kinds.size(); ++kind) {
    const std::string& name = machine.kinds[kind];
    Resources free = slot_resources(machine, machine.slots_of(static_cast<int>(kind)));
    free["memory"] = static_cast<int64_t>(machine.memory);
    if (machine.gpus) free["cpu"] = millicores(machine.cores);
    nodes.push_back({name.empty() ? machine.name : name, name, free});
  }
  return nodes;
}

Resources slot_resources(const Machine& machine, int count) {
  if (machine.gpus) return {{kGpu, count}};
  return {{"cpu", millicores(count)}};
}

int slots_per_replica(const Machine& machine, const JobSpec& spec) {
  const int64_t cpu = spec.request.cpu_millicores.value_or(1000);
  const int64_t slots = machine.gpus ? spec.request.gpus.value_or(1) : (cpu + 999) / 1000;
  return static_cast<int>(std::clamp<int64_t>(slots, 1, 1 << 20));
}

Resources request_of(const Machine& machine, const JobSpec& spec) {
  Resources request = slot_resources(machine, slots_per_replica(machine, spec));
  if (machine.gpus && spec.request.cpu_millicores) request["cpu"] = *spec.request.cpu_millicores;
  if (spec.request.memory_bytes) request["memory"] = *spec.request.memory_bytes;
  return request;
}

std::string shortage(const Machine& machine, const JobSpec& spec, int min_replicas) {
  if (!machine.gpus && spec.request.gpus.value_or(0) > 0) {
    return fmt::format("a replica requests {} GPUs, but this machine has none", *spec.request.gpus);
  }
  const Resources request = request_of(machine, spec);
  const int replicas = std::max(1, min_replicas);
  std::string problem;
  int most = 0;
  const std::vector<ClusterNode> nodes = nodes_of(machine);
  for (size_t kind = 0; kind < nodes.size(); ++kind) {
    if (!machine.may_use(spec, static_cast<int>(kind))) continue;
    const std::string there = shortage_on(nodes[kind], request, replicas);
    if (there.empty()) return "";
    const int slots = machine.slots_of(static_cast<int>(kind));
    if (slots > most) problem = there;
    most = std::max(most, slots);
  }
  if (most == 0) {
    return fmt::format("this machine has no slots of the kinds that the job names ({})",
                       fmt::join(spec.request.accelerators, ", "));
  }
  return problem;
}

}  // namespace adaptdl::local
