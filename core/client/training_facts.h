#pragma once

// How far a job or run is and how fast it trains, as far as it says. Pure.

#include <cstdint>
#include <optional>

#include "core/client/job_view.h"

namespace adaptdl::client {

struct TrainingFacts {
  std::optional<double> step, loss;                // the newest
  std::optional<double> progress, progress_total;  // scale-invariant iterations
  std::optional<double> seconds_left;
  std::optional<double> goodput;  // useful samples/s
  std::optional<int64_t> batch;   // samples of a step of all replicas
  // Of its GPUs: how busy in the mean; of the warmest; in all.
  std::optional<double> gpu_busy_percent, gpu_temperature_c, gpu_power_w;

  // The finished share of the training, 0 to 1.
  std::optional<double> done() const;
};

// From a runner's status (core/launch/client.h); nothing from any other JSON.
TrainingFacts training_facts(const Json& status);

// Of a job with replicas; nothing of another. What its status lacks is computed from its hints: the
// goodput of its present replicas and batch as their model predicts it, and from that the time
// left. Invalid hints count as none.
TrainingFacts training_facts(const JobView& job);

}  // namespace adaptdl::client
