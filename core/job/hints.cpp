#include "core/job/hints.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/ranges.h>
#include <set>

#include "core/base/number.h"
#include "core/job/replica_range.h"

namespace adaptdl {
namespace {

// Larger values are mistakes or malicious; sums and products of smaller ones do not overflow.
constexpr int64_t kMostSamples = 1'000'000'000'000;
constexpr double kMostSeconds = 1e6;
constexpr double kMostIterations = 1e15;
constexpr double kMostSquare = 1e30;
constexpr size_t kMostMetrics = 64, kLongestMetric = 128;
constexpr size_t kMostIgnored = 16, kLongestIgnored = 64;
constexpr size_t kMostKinds = 64, kLongestKind = 256;

constexpr JsonLimits kLimits = {.max_bytes = kMaxHintsBytes, .max_depth = 8};

// Python's json module writes non-finite numbers as bare words. In quotes they can be parsed, and
// rejected with the name of their field.
std::string quote_bare_words(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto word = std::find_if(kWords.begin(), kWords.end(),
                                   [&](std::string_view w) { return rest.starts_with(w); });
    if (!quoted && word != kWords.end()) {
      result += '"';
      result += *word;
      result += '"';
      i += word->size();
      continue;
    }
    const bool escaped = quoted && text[i] == '\\' && i + 1 < text.size();
    if (text[i] == '"') quoted = !quoted;
    result += text.substr(i, escaped ? 2 : 1);
    i += escaped ? 2 : 1;
  }
  return result;
}

std::optional<int64_t> read_count(const Json& value, const char* field, const std::string& where,
                                  int64_t low, int64_t high) {
  if (value.is_null()) return std::nullopt;
  const bool good = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX) &&
                    value.get<int64_t>() >= low && value.get<int64_t>() <= high;
  if (!good) {
    json_detail::wrong(field, where, value,
                       fmt::format("null or an integer from {} to {}", low, high));
  }
  return value.get<int64_t>();
}

std::optional<double> read_amount(const Json& value, const char* field, const std::string& where,
                                  double high) {
  if (value.is_null()) return std::nullopt;
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!(number >= 0 && number <= high)) {
    json_detail::wrong(field, where, value,
                       fmt::format("null or a number from 0 to {}", format_number(high)));
  }
  return number;
}

void read_bounds(const Json& value, const std::string& where, SchedulingHints& hints) {
  if (value.is_null()) return;
  if (!value.is_array() || value.size() != 2) {
    json_detail::wrong("localBszBounds", where, value, "null or a list of two sizes");
  }
  hints.atomic_min = read_count(value[0], "localBszBounds", where, 1, kMostSamples);
  hints.atomic_max = read_count(value[1], "localBszBounds", where, 1, kMostSamples);
}

void check_perf(const std::optional<PerfParams>& perf, const std::string& where) {
  if (!perf) return;
  for (const double seconds :
       {perf->alpha_c, perf->beta_c, perf->alpha_n, perf->beta_n, perf->alpha_r, perf->beta_r}) {
    if (seconds > kMostSeconds) {
      fail("{}: perfParams: {} s is not allowed; a step takes at most {} s", where,
           format_number(seconds), format_number(kMostSeconds));
    }
  }
}

void check_grad(const std::optional<GradParams>& grad, const std::string& where) {
  if (!grad) return;
  for (const double value : {grad->sqr, grad->var}) {
    if (value > kMostSquare) {
      fail("{}: gradParams: {} is not allowed; norm and var are at most {}", where,
           format_number(value), format_number(kMostSquare));
    }
  }
}

std::string read_kind(const std::string& kind, const char* field, const std::string& where) {
  if (kind.size() > kLongestKind) {
    fail("{}: {}: a kind has {} bytes; at most {} are allowed", where, field, kind.size(),
         kLongestKind);
  }
  return kind;
}

std::map<std::string, AcceleratorHints> read_accelerators(const Json& value,
                                                          const std::string& where) {
  std::map<std::string, AcceleratorHints> result;
  if (value.is_null()) return result;
  if (!value.is_object() || value.size() > kMostKinds) {
    json_detail::wrong("accelerators", where, value,
                       fmt::format("null or an object of at most {} kinds", kMostKinds));
  }
  for (const auto& [kind, told] : value.items()) {
    if (told.is_null()) continue;
    const std::string of = fmt::format("{}: accelerators", where);
    AcceleratorHints& hints = result[read_kind(kind, "accelerators", where)];
    hints.perf = perf_params_from_json(json_get_or<Json>(told, "perfParams", of, nullptr), of);
    check_perf(hints.perf, of);
    hints.atomic_max = read_count(json_get_or<Json>(told, "maxLocalBsz", of, nullptr),
                                  "maxLocalBsz", of, 1, kMostSamples);
  }
  return result;
}

std::map<std::string, double> read_metrics(const Json& value, const std::string& where) {
  std::map<std::string, double> metrics;
  if (value.is_null()) return metrics;
  if (!value.is_object() || value.size() > kMostMetrics) {
    json_detail::wrong("trainMetrics", where, value,
                       fmt::format("null or an object of at most {} numbers", kMostMetrics));
  }
  for (const auto& [name, number] : value.items()) {
    if (name.size() > kLongestMetric) {
      fail("{}: trainMetrics: a name has {} bytes; at most {} are allowed", where, name.size(),
           kLongestMetric);
    }
    if (number.is_null()) continue;
    if (!number.is_number() || !std::isfinite(number.get<double>())) {
      json_detail::wrong("trainMetrics", where, number, "null or a finite number");
    }
    metrics[name] = number.get<double>();
  }
  return metrics;
}

void check_sizes(const SchedulingHints& hints, const std::string& where) {
  if (hints.atomic_min && hints.atomic_max && *hints.atomic_min > *hints.atomic_max) {
    fail("{}: localBszBounds: the minimum {} is above the maximum {}", where, *hints.atomic_min,
         *hints.atomic_max);
  }
  if (!hints.initial_batch) return;
  const int64_t most = hints.max_batch.value_or(*hints.initial_batch);
  if (most < *hints.initial_batch) {
    fail("{}: maxBatchSize is {}; it must be at least initBatchSize, {}", where, most,
         *hints.initial_batch);
  }
  if (!hints.atomic_max && hints.atomic_min.value_or(1) > most) {
    fail("{}: localBszBounds: the minimum {} is above the largest batch, {}", where,
         *hints.atomic_min, most);
  }
}

Json value_or_null(const auto& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

SchedulingHints hints_from_json(const Json& object, const std::string& where,
                                std::vector<std::string>& ignored) {
  if (!object.is_object()) fail("{}: must be an object, is {}", where, object.type_name());
  SchedulingHints hints;
  for (const auto& [key, value] : object.items()) {
    if (key == "initBatchSize") {
      hints.initial_batch = read_count(value, "initBatchSize", where, 1, kMostSamples);
    } else if (key == "localBszBounds") {
      read_bounds(value, where, hints);
    } else if (key == "globalBatchSize") {
      hints.global_batch = read_count(value, "globalBatchSize", where, 1, kMostSamples);
    } else if (key == "maxBatchSize") {
      hints.max_batch = read_count(value, "maxBatchSize", where, 1, kMostSamples);
    } else if (key == "maxProfiledReplicas") {
      const auto replicas = read_count(value, "maxProfiledReplicas", where, 0, kMostReplicas);
      if (replicas) hints.max_profiled_replicas = static_cast<int>(*replicas);
    } else if (key == "gradientAccumulation") {
      hints.accumulation = json_get_or<bool>(object, key, where, false);
    } else if (key == "halvesAlone") {
      hints.halves_alone = json_get_or<bool>(object, key, where, false);
    } else if (key == "gradParams") {
      hints.grad = grad_params_from_json(value, where + ": gradParams");
    } else if (key == "perfParams") {
      hints.perf = perf_params_from_json(value, where + ": perfParams");
    } else if (key == "accelerator") {
      hints.accelerator =
          read_kind(json_get_or<std::string>(object, key, where, ""), "accelerator", where);
    } else if (key == "accelerators") {
      hints.accelerators = read_accelerators(value, where);
    } else if (key == "trainMetrics") {
      hints.train_metrics = read_metrics(value, where);
    } else if (key == "remainingProgress") {
      hints.remaining_progress = read_amount(value, "remainingProgress", where, kMostIterations);
    } else if (key == "rescaleCost") {
      hints.rescale_cost_s = read_amount(value, "rescaleCost", where, kMostSeconds);
    } else if (ignored.size() < kMostIgnored) {
      ignored.push_back(key.substr(0, kLongestIgnored));
    }
  }
  check_perf(hints.perf, where);
  check_grad(hints.grad, where);
  check_sizes(hints, where);
  return hints;
}

SchedulingHints parse_hints(std::string_view text, const std::string& where,
                            std::vector<std::string>& ignored) {
  // Quotes make the text longer, so check its length before.
  if (text.size() > kLimits.max_bytes) {
    fail("{}: has {} bytes; at most {} are allowed", where, text.size(), kLimits.max_bytes);
  }
  const JsonLimits quoted = {.max_bytes = 4 * kLimits.max_bytes, .max_depth = kLimits.max_depth};
  return hints_from_json(parse_json(quote_bare_words(text), where, quoted), where, ignored);
}

Json to_json(const SchedulingHints& hints) {
  Json object = {{"initBatchSize", value_or_null(hints.initial_batch)},
                 {"localBszBounds", nullptr},
                 {"globalBatchSize", value_or_null(hints.global_batch)},
                 {"maxBatchSize", value_or_null(hints.max_batch)},
                 {"maxProfiledReplicas", value_or_null(hints.max_profiled_replicas)},
                 {"gradientAccumulation", hints.accumulation},
                 {"gradParams", hints.grad ? to_json(*hints.grad) : Json(nullptr)},
                 {"perfParams", hints.perf ? to_json(*hints.perf) : Json(nullptr)}};
  if (hints.atomic_min || hints.atomic_max) {
    object["localBszBounds"] =
        Json::array({value_or_null(hints.atomic_min), value_or_null(hints.atomic_max)});
  }
  if (hints.halves_alone) object["halvesAlone"] = true;
  if (!hints.accelerator.empty()) object["accelerator"] = hints.accelerator;
  for (const auto& [kind, known] : hints.accelerators) {
    object["accelerators"][kind] = {
        {"perfParams", known.perf ? to_json(*known.perf) : Json(nullptr)},
        {"maxLocalBsz", value_or_null(known.atomic_max)}};
  }
  if (!hints.train_metrics.empty()) object["trainMetrics"] = hints.train_metrics;
  if (hints.remaining_progress) object["remainingProgress"] = *hints.remaining_progress;
  if (hints.rescale_cost_s) object["rescaleCost"] = *hints.rescale_cost_s;
  return object;
}

SchedulingHints with_kinds(SchedulingHints told, const std::optional<std::string>& kind,
                           const SchedulingHints& before) {
  const auto add = [&told](const std::string& name, const AcceleratorHints& known) {
    if (told.accelerators.size() < kMostKinds) told.accelerators.try_emplace(name, known);
  };
  if (kind && told.perf) {
    add(*kind, {told.perf, told.atomic_max});
    if (told.accelerator.empty()) told.accelerator = *kind;
  }
  for (const auto& [name, known] : before.accelerators) add(name, known);
  return told;
}

std::string joined_kinds(const std::vector<std::string>& names) {
  const std::set<std::string> kinds(names.begin(), names.end());
  if (kinds.contains("")) return "";
  return fmt::format("{}", fmt::join(kinds, "+")).substr(0, kLongestKind);
}

JobHints job_hints(const SchedulingHints& hints) {
  JobHints result;
  result.perf = hints.perf;
  for (const auto& [kind, known] : hints.accelerators) {
    result.kinds[kind] = {.perf = known.perf, .atomic_max = known.atomic_max};
  }
  result.grad = hints.grad;
  if (hints.initial_batch) {
    BatchBounds batch;
    batch.initial = *hints.initial_batch;
    batch.max = hints.max_batch.value_or(batch.initial);
    batch.atomic_min = hints.atomic_min.value_or(1);
    batch.atomic_max = hints.atomic_max.value_or(0);
    batch.accumulation = hints.accumulation;
    batch.halves_alone = hints.halves_alone;
    result.batch = batch;
  }
  result.max_profiled_replicas = hints.max_profiled_replicas.value_or(0);
  result.remaining_progress = hints.remaining_progress;
  result.rescale_cost_s = hints.rescale_cost_s;
  return result;
}

std::optional<double> estimated_restart_cost(double reported_after_s,
                                             const std::optional<double>& before) {
  constexpr double kPeriod = 30, kLongest = 1800;
  const double after = std::max(reported_after_s, 0.0);
  const double cost = after < kPeriod ? after : after - kPeriod;
  return cost > before.value_or(kLongest) ? before : cost;
}

}  // namespace adaptdl
