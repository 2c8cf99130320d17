#include "core/launch/io/run_progress.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "core/formats/json_or_null.h"

namespace adaptdl::launch {
namespace {

using nlohmann::json;

constexpr double kRateMemory_s = 60;  // time constant of the rate
constexpr double kOldWeight = 0.9;    // weight of the old value of a smoothed number, per step
constexpr double kGpuMemory_s = 30;   // how long what was said of a GPU holds
constexpr size_t kMostGpus = 4096, kMostId = 128;

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
  time_s_ = finite_at(event, "time_s").value_or(time_s_);
  if (*kind == "batch") {
    if (const auto batch = count_at(event, "batch")) batch_ = batch;
  }
  if (*kind == "gpu") take_gpu(event);
  if (*kind == "generation") forget_gpus(event.value("members", json()));
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

// Any replica may emit events, of whatever members.
void RunProgress::take_gpu(const json& event) {
  const auto member = count_at(event, "member");
  const auto id = event.find("id");
  if (!member || id == event.end() || !id->is_string()) return;
  if (gpus_.size() >= kMostGpus && !gpus_.contains(*member)) return;
  gpus_[*member] = {time_s_,
                    id->get<std::string>().substr(0, kMostId),
                    finite_at(event, "busy_percent"),
                    finite_at(event, "temperature_c"),
                    finite_at(event, "power_w"),
                    finite_at(event, "memory_used_bytes")};
}

// Only those that train count.
void RunProgress::forget_gpus(const json& members) {
  if (!members.is_array()) return;
  std::erase_if(gpus_, [&](const auto& gpu) {
    return std::ranges::find(members, json(gpu.first)) == members.end();
  });
}

// Each once, also if replicas share it; null where none of them tells.
json RunProgress::gpu_facts() const {
  std::map<std::string, const ToldGpu*> each;
  for (const auto& [member, gpu] : gpus_) {
    if (time_s_ - gpu.time_s <= kGpuMemory_s) each[gpu.id] = &gpu;
  }
  const auto told = [&](std::optional<double> ToldGpu::*field, const auto& of) {
    std::vector<double> all;
    for (const auto& [id, gpu] : each) {
      if (gpu->*field) all.push_back(*(gpu->*field));
    }
    return all.empty() ? json() : json(of(all));
  };
  const auto sum = [](const auto& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
  const auto mean = [&](const auto& all) { return sum(all) / static_cast<double>(all.size()); };
  const auto largest = [](const auto& all) { return *std::ranges::max_element(all); };
  return {{"gpu_busy_percent", told(&ToldGpu::busy_percent, mean)},
          {"gpu_temperature_c", told(&ToldGpu::temperature_c, largest)},
          {"gpu_power_w", told(&ToldGpu::power_w, sum)},
          {"gpu_memory_used_bytes", told(&ToldGpu::memory_used_bytes, largest)}};
}

json RunProgress::facts() const {
  const bool knows_end = total_.value_or(0) > 0;
  json facts = gpu_facts();
  facts.update({{"progress", or_null(progress_)},
                {"progress_total", knows_end ? json(*total_) : json()},
                {"seconds_left", knows_end ? or_null(rate_.seconds_to(*total_)) : json()},
                {"batch", or_null(batch_)},
                {"samples_per_s", or_null(samples_per_s_)},
                {"goodput", or_null(goodput_)}});
  return facts;
}

json RunProgress::metrics() const {
  const json known = facts();
  json metrics = {{"step", or_null(step_)},
                  {"epoch", or_null(epoch_)},
                  {"loss", or_null(loss_)},
                  {"progress", known["progress"]},
                  {"progressTotal", known["progress_total"]},
                  {"secondsLeft", known["seconds_left"]},
                  {"samplesPerSecond", known["samples_per_s"]},
                  {"goodput", known["goodput"]},
                  {"gpuBusyPercent", known["gpu_busy_percent"]},
                  {"gpuTemperatureCelsius", known["gpu_temperature_c"]},
                  {"gpuPowerWatts", known["gpu_power_w"]},
                  {"gpuMemoryUsedBytes", known["gpu_memory_used_bytes"]}};
  for (auto each = metrics.begin(); each != metrics.end();) {
    each = each->is_null() ? metrics.erase(each) : std::next(each);
  }
  return metrics;
}

}  // namespace adaptdl::launch
