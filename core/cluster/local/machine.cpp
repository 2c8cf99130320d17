#include "core/cluster/local/machine.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/system.h"

namespace adaptdl::local {

namespace {

constexpr const char* kGpu = "nvidia.com/gpu";

int64_t millicores(int cores) {
  return int64_t{cores} * 1000;
}

}  // namespace

Machine this_machine(std::optional<int> slots) {
  Machine machine;
  machine.name = host_name();
  machine.cores = available_cores();
  machine.memory = available_memory();
  const int gpu_count = static_cast<int>(gpus().size());
  machine.gpus = gpu_count > 0;
  const int there = machine.gpus ? gpu_count : machine.cores;
  machine.slots = slots.value_or(there);
  if (machine.slots > there) {
    machine.gpus = false;
  } else if (machine.gpus) {
    machine.slot_numbers.resize(static_cast<size_t>(machine.slots));
    std::iota(machine.slot_numbers.begin(), machine.slot_numbers.end(), 0);
  } else {
    machine.slot_numbers = affinity_core_numbers();
    machine.slot_numbers.resize(static_cast<size_t>(machine.slots));
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

ClusterNode node_of(const Machine& machine) {
  Resources free{{"memory", static_cast<int64_t>(machine.memory)}};
  if (machine.gpus) {
    free[kGpu] = machine.slots;
    free["cpu"] = millicores(machine.cores);
  } else {
    free["cpu"] = millicores(machine.slots);
  }
  return {machine.name, "", free};
}

int slots_per_replica(const Machine& machine, const JobSpec& spec) {
  const int64_t cpu = spec.request.cpu_millicores.value_or(1000);
  const int64_t slots = machine.gpus ? spec.request.gpus.value_or(1) : (cpu + 999) / 1000;
  return static_cast<int>(std::clamp<int64_t>(slots, 1, 1 << 20));
}

Resources request_of(const Machine& machine, const JobSpec& spec) {
  const int slots = slots_per_replica(machine, spec);
  Resources request;
  if (machine.gpus) {
    request[kGpu] = slots;
    if (spec.request.cpu_millicores) request["cpu"] = *spec.request.cpu_millicores;
  } else {
    request["cpu"] = millicores(slots);
  }
  if (spec.request.memory_bytes) request["memory"] = *spec.request.memory_bytes;
  return request;
}

std::string shortage(const Machine& machine, const JobSpec& spec, int min_replicas) {
  if (!machine.gpus && spec.request.gpus.value_or(0) > 0) {
    return fmt::format("a replica requests {} GPUs, but this machine has none", *spec.request.gpus);
  }
  const Resources there = node_of(machine).free_for_jobs;
  const int replicas = std::max(1, min_replicas);
  for (const auto& [resource, amount] : request_of(machine, spec)) {
    const int64_t have = there.contains(resource) ? there.at(resource) : 0;
    if (amount <= have / replicas) continue;
    const auto shown = [&name = resource](int64_t value) {
      if (name == "cpu") return fmt::format("{:g} cores", static_cast<double>(value) / 1000);
      if (name == "memory") return fmt::format("{:.1f} GiB", static_cast<double>(value) / 0x1p30);
      return fmt::format("{} GPUs", value);
    };
    return fmt::format("{} replica{} of {} each cannot fit: this machine has {} for jobs", replicas,
                       replicas == 1 ? "" : "s", shown(amount), shown(have));
  }
  return "";
}

}  // namespace adaptdl::local
