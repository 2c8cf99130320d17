#include "runtime/comm/nccl/choice.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "runtime/comm/nccl/library.h"

namespace adaptdl::comm::nccl {

using nlohmann::json;

void add_gpu(json& endpoint, const Gpu& gpu) {
  endpoint["gpu"] = {{"id", gpu.id}, {"nccl", gpu.version}, {"between_hosts", gpu.between_hosts}};
}

std::optional<Gpu> gpu_of(const json& endpoint) {
  const auto found = endpoint.find("gpu");
  if (found == endpoint.end()) return std::nullopt;
  try {
    return Gpu{found->at("id").get<std::string>(), found->at("nccl").get<int>(),
               found->at("between_hosts").get<bool>()};
  } catch (const json::exception&) {
    return Gpu{};
  }
}

Choice choose(const std::vector<json>& endpoints, const std::vector<std::string>& names) {
  std::vector<Gpu> gpus;
  std::set<std::string> hosts;
  std::optional<size_t> with, without;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    const std::optional<Gpu> gpu = gpu_of(endpoints[i]);
    (gpu ? with : without) = i;
    gpus.push_back(gpu.value_or(Gpu{}));
    hosts.insert(endpoints[i].value("host", ""));
  }
  if (!with) return {};
  if (without) {
    fail("{} trains on a GPU, {} on a CPU: give all a GPU, or choose --device cpu for all",
         names.at(*with), names.at(*without));
  }
  std::map<std::string, size_t> owners;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].version == 0) return {false, fmt::format("{} uses no NCCL", names.at(i))};
    if (gpus[i].version != gpus[0].version) {
      return {false,
              fmt::format("{} has NCCL {}, {} has {}", names.at(0), version_text(gpus[0].version),
                          names.at(i), version_text(gpus[i].version))};
    }
    const auto [owner, fresh] = owners.try_emplace(gpus[i].id, i);
    if (!fresh) {
      return {false, gpus[i].id.empty()
                         ? "the driver does not tell which GPUs they train on"
                         : fmt::format("{} and {} share GPU {}", names.at(owner->second),
                                       names.at(i), gpus[i].id)};
    }
    if (hosts.size() > 1 && !gpus[i].between_hosts) {
      return {
          false,
          "NCCL does not encrypt what hosts exchange (--plain-links allows it, on a network that "
          "you trust)"};
    }
  }
  return {true, ""};
}

}  // namespace adaptdl::comm::nccl
