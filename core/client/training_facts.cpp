#include "core/client/training_facts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/formats/json_fields.h"
#include "core/goodput/goodput.h"
#include "core/job/hints.h"

namespace adaptdl::client {
namespace {

// A job's program may write anything into its status.
constexpr double kMostAmount = 1e15, kMostSecondsLeft = 1e10;

std::optional<double> amount(const Json& status, const char* key, double most = kMostAmount) {
  const Json& value = member(status, key);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return number >= 0 && number <= most ? std::optional(number) : std::nullopt;
}

std::optional<SchedulingHints> valid_hints(const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    std::vector<std::string> ignored;
    return parse_hints(text, "hints", ignored);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// samples/s; nothing if the hints lack a part of the model.
std::optional<double> predicted_goodput(const SchedulingHints& hints, int nodes, int replicas) {
  if (!hints.perf || !hints.grad || !hints.initial_batch || !hints.global_batch) {
    return std::nullopt;
  }
  const double share = static_cast<double>(*hints.global_batch) / replicas;
  const auto most = static_cast<double>(hints.atomic_max.value_or(*hints.global_batch));
  const double passes = std::clamp(std::ceil(share / most), 1.0, double{kMostAccumulation});
  try {
    const GoodputModel model(*hints.perf, *hints.grad, *hints.initial_batch);
    const double goodput =
        model.evaluate(nodes, replicas, share / passes, static_cast<int>(passes) - 1);
    return goodput > 0 && goodput <= kMostAmount ? std::optional(goodput) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

int node_count(const JobView& job) {
  const std::set<std::string> nodes(job.nodes.begin(), job.nodes.end());
  return std::clamp(static_cast<int>(nodes.size()), 1, job.replicas);
}

}  // namespace

std::optional<double> TrainingFacts::done() const {
  if (!progress || progress_total.value_or(0) <= 0) return std::nullopt;
  return std::min(1.0, *progress / *progress_total);
}

TrainingFacts training_facts(const Json& status) {
  TrainingFacts facts;
  facts.step = amount(status, "step");
  const Json& loss = member(status, "loss");
  if (loss.is_number() && std::isfinite(loss.get<double>())) facts.loss = loss.get<double>();
  facts.progress = amount(status, "progress");
  facts.progress_total = amount(status, "progress_total");
  facts.seconds_left = amount(status, "seconds_left", kMostSecondsLeft);
  facts.goodput = amount(status, "goodput");
  facts.gpu_busy_percent = amount(status, "gpu_busy_percent");
  facts.gpu_temperature_c = amount(status, "gpu_temperature_c");
  facts.gpu_power_w = amount(status, "gpu_power_w");
  if (const auto batch = amount(status, "batch")) facts.batch = static_cast<int64_t>(*batch);
  return facts;
}

TrainingFacts training_facts(const JobView& job) {
  if (job.ended() || job.replicas < 1) return {};
  TrainingFacts facts = training_facts(job.status);
  if (facts.batch && facts.goodput && facts.seconds_left) return facts;
  const auto hints = valid_hints(job.hints);
  if (!hints) return facts;
  if (!facts.batch) facts.batch = hints->global_batch;
  if (!facts.goodput) facts.goodput = predicted_goodput(*hints, node_count(job), job.replicas);
  const auto left = hints->remaining_progress;
  if (!facts.seconds_left && left && facts.goodput.value_or(0) > 0 && hints->initial_batch) {
    const double seconds = *left * static_cast<double>(*hints->initial_batch) / *facts.goodput;
    if (seconds <= kMostSecondsLeft) facts.seconds_left = seconds;
  }
  return facts;
}

}  // namespace adaptdl::client
