#include "runtime/session/progress.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/formats/json.h"

namespace adaptdl {
namespace {

using nlohmann::json;

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Visits every field by name, except the statistics. Saving, reading and the digest use this list.
template <typename P, typename Visit>
void visit_fields(P& p, Visit&& visit) {
  visit("tick", p.tick);
  visit("step", p.step);
  visit("iterations", p.iterations);
  visit("epoch", p.position.epoch);
  visit("pass", p.position.pass);
  visit("index", p.position.index);
  visit("passes", p.position.passes);
  visit("turn", p.turn);
  visit("turn_loss", p.turn_loss);
  visit("turn_skipped", p.turn_skipped);
  visit("atomic", p.batch.atomic);
  visit("micro_steps", p.batch.micro_steps);
  visit("fixed_batch", p.batch.fixed);
  visit("batch_since", p.batch_since);
  visit("fresh", p.fresh);
  visit("proven", p.proven);
  visit("atomic_limit", p.atomic_limit);
  visit("batch_replicas", p.batch_replicas);
  visit("measure", p.measure);
  visit("last_measured", p.last_measured);
  visit("loss_scale", p.loss_scale.factor);
  visit("loss_scale_steps", p.loss_scale.steps);
  visit("skipped", p.skipped);
  visit("skipped_in_a_row", p.skipped_in_a_row);
  visit("epoch_loss_sum", p.epoch_loss_sum);
  visit("epoch_samples", p.epoch_samples);
  visit("sums", p.sums);
  visit("validate", p.validate);
  visit("next_validation", p.next_validation);
  visit("finished", p.finished);
  visit("validation", p.validation);
  visit("ended_by", p.ended_by);
  visit("trained_s", p.trained_s);
  visit("best", p.best);
  visit("best_step", p.best_step);
  visit("to_improve", p.to_improve);
  visit("validations_since", p.validations_since);
}

// JSON cannot represent numbers that are not finite; the metrics of a diverging model may be.
json to_json(const std::map<std::string, double>& metrics) {
  json result = json::object();
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) {
      result[name] = value;
    } else {
      result[name] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    }
  }
  return result;
}

void from_json(const json& saved, std::map<std::string, double>& metrics) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [name, value] : saved.items()) {
    metrics[name] = value.is_number() ? value.get<double>()
                    : value == "nan"  ? std::numeric_limits<double>::quiet_NaN()
                    : value == "inf"  ? kInfinity
                                      : -kInfinity;
  }
}

}  // namespace

uint64_t digest(const Progress& progress) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto mix = [&hash](const auto& value) {
    uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits);
    std::memcpy(&bits, &value, sizeof value);
    hash = (hash ^ bits) * 0x100000001B3u;
    hash ^= hash >> 29;
  };
  visit_fields(progress, [&mix](const char*, const auto& value) {
    if constexpr (kIsNumber<std::remove_cvref_t<decltype(value)>>) {
      mix(value);
    } else {
      for (const auto& [name, metric] : value) {
        mix(std::isnan(metric) ? std::numeric_limits<double>::quiet_NaN() : metric);
      }
    }
  });
  if (!progress.statistics.empty()) {
    mix(progress.statistics.sqr());
    mix(progress.statistics.var());
  }
  return hash;
}

json to_json(const Progress& progress) {
  json result = {{"statistics", progress.statistics.to_json()}};
  visit_fields(progress, [&](const char* name, const auto& value) {
    if constexpr (kIsNumber<std::remove_cvref_t<decltype(value)>>) {
      result[name] = value;
    } else {
      result[name] = to_json(value);
    }
  });
  return result;
}

Progress progress_from_json(const json& saved) {
  Progress progress;
  try {
    visit_fields(progress, [&](const char* name, auto& value) {
      const auto found = saved.find(name);
      if (found == saved.end()) return;  // an earlier version wrote it; the field keeps its default
      if constexpr (kIsNumber<std::remove_cvref_t<decltype(value)>>) {
        found->get_to(value);
      } else {
        from_json(*found, value);
      }
    });
    progress.statistics = gns::GradientStatistics::from_json(saved.at("statistics"));
  } catch (const json::exception& error) {
    fail("cannot read the saved progress: {}", error.what());
  }
  return progress;
}

}  // namespace adaptdl
