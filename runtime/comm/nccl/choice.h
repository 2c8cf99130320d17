#pragma once

// Whether the members of a generation exchange what is on their GPUs by NCCL, or through host
// memory. Each member computes it from the same list, and comes to the same answer.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl::comm::nccl {

// What a member says of its GPU, in its endpoint.
struct Gpu {
  std::string id;   // the same for replicas that share it; "" if the driver does not tell
  int version = 0;  // of its NCCL; 0: it uses none
  bool between_hosts = false;  // what NCCL sends is not encrypted: whether it may leave the host
};

// Adds it to an endpoint (Listener::endpoint()), and reads it there: nothing for a member without a
// GPU. What cannot be read uses no NCCL.
void add_gpu(nlohmann::json& endpoint, const Gpu& gpu);
std::optional<Gpu> gpu_of(const nlohmann::json& endpoint);

struct Choice {
  bool nccl = false;
  std::string reason;  // for people, of NCCL not being used although there are several GPUs
};

// `endpoints`: of all members, in rank order, at least two; `names`: of them, for the reason.
// Throws Error if some train on a GPU and others do not.
Choice choose(const std::vector<nlohmann::json>& endpoints, const std::vector<std::string>& names);

}  // namespace adaptdl::comm::nccl
