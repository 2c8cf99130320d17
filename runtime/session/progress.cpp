#include "runtime/session/progress.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/base/json.h"

namespace adaptdl {
namespace {

using nlohmann::json;

// Every field by name, but for the statistics: the one list behind saving, reading and the digest.
template <typename P, typename Visit>
void visit_fields(P& p, Visit&& visit) {
  visit("tick", p.tick);
  visit("step", p.step);
  visit("iterations", p.iterations);
  visit("epoch", p.position.epoch);
  visit("pass", p.position.pass);
  visit("index", p.position.index);
  visit("atomic", p.batch.atomic);
  visit("micro_steps", p.batch.micro_steps);
  visit("batch_replicas", p.batch_replicas);
  visit("measure", p.measure);
  visit("measured", p.measured);
  visit("last_measured", p.last_measured);
  visit("skipped", p.skipped);
  visit("skipped_in_a_row", p.skipped_in_a_row);
  visit("epoch_loss_sum", p.epoch_loss_sum);
  visit("epoch_samples", p.epoch_samples);
  visit("validate", p.validate);
  visit("next_validation", p.next_validation);
  visit("finished", p.finished);
  visit("validation", p.validation);
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
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      mix(value);
    } else {
      for (const auto& [name, metric] : value) mix(metric);
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
  visit_fields(progress, [&](const char* name, const auto& value) { result[name] = value; });
  return result;
}

Progress progress_from_json(const json& saved) {
  Progress progress;
  try {
    visit_fields(progress, [&](const char* name, auto& value) { saved.at(name).get_to(value); });
    progress.statistics = gns::GradientStatistics::from_json(saved.at("statistics"));
  } catch (const json::exception& error) {
    fail("the saved progress cannot be read: {}", error.what());
  }
  return progress;
}

}  // namespace adaptdl
