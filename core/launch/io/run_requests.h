#pragma once

// The requests of a run's control socket (client.h), read and checked for every launcher in one
// place.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl::launch {

struct ScaleRequest {
  int replicas = 1;
  std::optional<std::vector<int>> slots;  // that the run has from now on; none: as before
};

// What the slots of a request are checked against.
struct RunSlots {
  bool own = false;          // the run was started with slots of its own
  std::vector<int> present;  // ... and has these now
  int per_replica = 1;
  int gpus = 0;  // of which the slots are some; 0: they are cores
};

// What a run does about requests. Called from answer_request().
class RunControl {
 public:
  virtual ~RunControl() = default;

  virtual nlohmann::json status() const = 0;
  virtual std::string ending() const = 0;  // how it is ending; "" while it is not
  virtual RunSlots slots() const = 0;
  virtual int scale(const ScaleRequest& request) = 0;  // the target of before
  virtual void cancel(bool checkpoint) = 0;
};

// The answer. Throws Error: the refusal.
nlohmann::json answer_request(RunControl& run, const nlohmann::json& request);

}  // namespace adaptdl::launch
