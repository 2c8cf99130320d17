#pragma once

// Requests of a run's control socket (client.h), read and checked in one place for every launcher.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl::launch {

struct ScaleRequest {
  int replicas = 1;
  std::optional<std::vector<int>> slots;  // the run's slots from now on; none: unchanged
  std::string supervisor;  // URL that commands use from their next start on; "": unchanged
};

// What the slots of a request are checked against.
struct RunSlots {
  bool own = false;          // the run was started with slots of its own
  std::vector<int> present;  // ... and these are its present ones
  int per_replica = 1;
  int gpus = 0;  // number of GPUs, of which the slots are indices; 0: slots are cores
};

// The operations that requests ask of a run. Called from answer_request().
class RunControl {
 public:
  virtual ~RunControl() = default;

  virtual nlohmann::json status() const = 0;
  virtual std::string ending() const = 0;  // how the run is ending; "" while it is not
  virtual RunSlots slots() const = 0;
  virtual int scale(const ScaleRequest& request) = 0;  // returns the previous target
  virtual bool cancel(bool checkpoint) = 0;  // returns whether a checkpoint comes before the end
};

// Returns the answer. Throws Error to refuse.
nlohmann::json answer_request(RunControl& run, const nlohmann::json& request);

}  // namespace adaptdl::launch
