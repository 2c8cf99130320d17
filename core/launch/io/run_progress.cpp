#include "core/launch/io/run_progress.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::launch {
namespace {

using nlohmann::json;

constexpr double kRateMemory_s = 60;  // time constant of the rate
constexpr double kOldWeight = 0.9;    // weight of the old value of a smoothed number, per step

std::optional<double> finite_at(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

void update(std::optional<double>& target, const json& event, const char* key) {
  if (const auto value = finite_at(event, key)) target = value;
}

void average(std::optional<double>& target, const json& event, const char* key) {
  const auto value = finite_at(event, key);
  if (value) target = target ? kOldWeight * *target + (1 - kOldWeight) * *value : *value;
}

std::optional<int64_t> count_at(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

template <typename T>
json json_or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

}  // namespace

void ProgressRate::add(double time_s, double progress) {
  if (!std::isfinite(time_s) || !std::isfinite(progress)) return;
  if (last_ && time_s >= last_->time_s && progress >= last_->progress) {
    const double elapsed = time_s - last_->time_s;
    const double keep = std::exp(-elapsed / kRateMemory_s);
    progress_ = keep * progress_ + (progress - last_->progress);
    seconds_ = keep * seconds_ + elapsed;
  }
  last_ = {time_s, progress};
}

std::optional<double> ProgressRate::per_s() const {
  if (seconds_ <= 0 || progress_ <= 0) return std::nullopt;
  return progress_ / seconds_;
}

std::optional<double> ProgressRate::seconds_to(double total) const {
  const auto rate = per_s();
  if (!rate) return std::nullopt;
  return std::max(0.0, total - last_->progress) / *rate;
}

void RunProgress::event(const json& event) {
  if (!event.is_object()) return;
  const auto kind = event.find("event");
  if (kind == event.end()) return;
  if (*kind == "batch") {
    if (const auto batch = count_at(event, "batch")) batch_ = batch;
  }
  if (*kind != "step") return;
  for (const auto& [target, key] :
       {std::pair{&step_, "step"}, std::pair{&epoch_, "epoch"}, std::pair{&progress_, "progress"},
        std::pair{&total_, "progress_total"}}) {
    update(*target, event, key);
  }
  average(loss_, event, "loss");
  average(samples_per_s_, event, "samples_per_s");
  average(goodput_, event, "goodput");
  // A batch event reports every change; the last step of a pass may be smaller.
  if (!batch_) batch_ = count_at(event, "batch");
  const auto time_s = finite_at(event, "time_s");
  if (time_s && progress_) rate_.add(*time_s, *progress_);
}

json RunProgress::facts() const {
  const bool knows_end = total_.value_or(0) > 0;
  return {{"progress", json_or_null(progress_)},
          {"progress_total", knows_end ? json(*total_) : json()},
          {"seconds_left", knows_end ? json_or_null(rate_.seconds_to(*total_)) : json()},
          {"batch", json_or_null(batch_)},
          {"samples_per_s", json_or_null(samples_per_s_)},
          {"goodput", json_or_null(goodput_)}};
}

json RunProgress::metrics() const {
  const json known = facts();
  json metrics = {{"step", json_or_null(step_)},
                  {"epoch", json_or_null(epoch_)},
                  {"loss", json_or_null(loss_)},
                  {"progress", known["progress"]},
                  {"progressTotal", known["progress_total"]},
                  {"secondsLeft", known["seconds_left"]},
                  {"samplesPerSecond", known["samples_per_s"]},
                  {"goodput", known["goodput"]}};
  for (auto each = metrics.begin(); each != metrics.end();) {
    each = each->is_null() ? metrics.erase(each) : std::next(each);
  }
  return metrics;
}

}  // namespace adaptdl::launch
