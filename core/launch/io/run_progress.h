#pragma once

// How far a run is and how fast it trains, from its events (adaptdl-events(5)).

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace adaptdl::launch {

// The rate of any progress: an average with weights that halve about every 40 s, by time and not by
// report, so that the jitter of single steps does not count and pauses do. One thread.
class ProgressRate {
 public:
  // The progress at a time, seconds of any clock. Progress that goes back (training continues from
  // an older checkpoint) and a clock that goes back only move the starting point. Ignores numbers
  // that are not finite.
  void add(double time_s, double progress);

  // Per second; nothing until some time has passed with progress. > 0.
  std::optional<double> per_s() const;
  // Seconds until the progress is `total`, >= 0; nothing as per_s().
  std::optional<double> seconds_to(double total) const;

 private:
  struct Point {
    double time_s, progress;
  };
  std::optional<Point> last_;
  double progress_ = 0, seconds_ = 0;  // recent, with weights that decay
};

// The newest facts of a run under way, by the time of its events. Ignores unknown events and fields
// of an unexpected type. One thread.
class RunProgress {
 public:
  void event(const nlohmann::json& event);

  // {progress, progress_total, seconds_left, batch, samples_per_s, goodput}, null where unknown:
  // scale-invariant iterations so far and in the whole training; the time left at the recent rate;
  // samples of a step; the last two are averages over about 10 steps. And of the GPUs of replicas
  // that train and have told in the last 30 s, each counted once: gpu_busy_percent, their mean,
  // gpu_temperature_c, of the warmest, gpu_power_w, in all, gpu_memory_used_bytes, of the fullest.
  nlohmann::json facts() const;

  // The same for scheduling hints, as `trainMetrics` (core/job/hints.h): {step, epoch, loss,
  // progress, progressTotal, secondsLeft, samplesPerSecond, goodput, gpuBusyPercent,
  // gpuTemperatureCelsius, gpuPowerWatts, gpuMemoryUsedBytes}, without the unknown ones.
  nlohmann::json metrics() const;

 private:
  struct ToldGpu {
    double time_s = 0;
    std::string id;
    std::optional<double> busy_percent, temperature_c, power_w, memory_used_bytes;
  };

  void take_gpu(const nlohmann::json& event);
  void forget_gpus(const nlohmann::json& members);  // but those
  nlohmann::json gpu_facts() const;

  std::optional<double> step_, epoch_, loss_, progress_, total_, samples_per_s_, goodput_;
  std::optional<int64_t> batch_;
  double time_s_ = 0;                // of the newest event
  std::map<int64_t, ToldGpu> gpus_;  // the newest, by replica
  ProgressRate rate_;
};

}  // namespace adaptdl::launch
