#pragma once

// How far a run is and how fast it trains, from its events (adaptdl-events(5)).

#include <nlohmann/json.hpp>
#include <optional>

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

// The newest facts of a run under way. Ignores unknown events and fields of an unexpected type. One
// thread.
class RunProgress {
 public:
  void event(const nlohmann::json& event);

  // {progress, progress_total, seconds_left, batch, samples_per_s, goodput}, null where unknown:
  // scale-invariant iterations so far and in the whole training; the time left at the recent rate;
  // samples of a step; the last two are averages over about 10 steps.
  nlohmann::json facts() const;

  // The same for scheduling hints, as `trainMetrics` (core/job/hints.h): {step, epoch, loss,
  // progress, progressTotal, secondsLeft, samplesPerSecond, goodput}, without the unknown ones.
  nlohmann::json metrics() const;

 private:
  std::optional<double> step_, epoch_, loss_, progress_, total_, samples_per_s_, goodput_;
  std::optional<int64_t> batch_;
  ProgressRate rate_;
};

}  // namespace adaptdl::launch
