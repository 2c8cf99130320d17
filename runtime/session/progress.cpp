#include "runtime/session/progress.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace adaptdl {

using nlohmann::json;

uint64_t digest(const Progress& p) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto mix = [&hash](auto value) {
    uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits);
    std::memcpy(&bits, &value, sizeof value);
    hash = (hash ^ bits) * 0x100000001B3u;
    hash ^= hash >> 29;
  };
  mix(p.tick);
  mix(p.step);
  mix(p.iterations);
  mix(p.position.epoch);
  mix(p.position.pass);
  mix(p.position.index);
  mix(p.batch.atomic);
  mix(p.batch.micro_steps);
  mix(p.measure);
  mix(p.validate);
  mix(p.finished);
  mix(p.next_validation);
  if (!p.statistics.empty()) {
    mix(p.statistics.sqr());
    mix(p.statistics.var());
  }
  return hash;
}

json to_json(const Progress& p) {
  return {{"tick", p.tick},
          {"step", p.step},
          {"iterations", p.iterations},
          {"epoch", p.position.epoch},
          {"pass", p.position.pass},
          {"index", p.position.index},
          {"atomic", p.batch.atomic},
          {"micro_steps", p.batch.micro_steps},
          {"batch_replicas", p.batch_replicas},
          {"measure", p.measure},
          {"measured", p.measured},
          {"last_measured", p.last_measured},
          {"skipped", p.skipped},
          {"skipped_in_a_row", p.skipped_in_a_row},
          {"epoch_loss_sum", p.epoch_loss_sum},
          {"epoch_samples", p.epoch_samples},
          {"validate", p.validate},
          {"next_validation", p.next_validation},
          {"finished", p.finished},
          {"validation", p.validation},
          {"statistics", p.statistics.to_json()}};
}

Progress progress_from_json(const json& j) {
  Progress p;
  try {
    j.at("tick").get_to(p.tick);
    j.at("step").get_to(p.step);
    j.at("iterations").get_to(p.iterations);
    j.at("epoch").get_to(p.position.epoch);
    j.at("pass").get_to(p.position.pass);
    j.at("index").get_to(p.position.index);
    j.at("atomic").get_to(p.batch.atomic);
    j.at("micro_steps").get_to(p.batch.micro_steps);
    j.at("batch_replicas").get_to(p.batch_replicas);
    j.at("measure").get_to(p.measure);
    j.at("measured").get_to(p.measured);
    j.at("last_measured").get_to(p.last_measured);
    j.at("skipped").get_to(p.skipped);
    j.at("skipped_in_a_row").get_to(p.skipped_in_a_row);
    j.at("epoch_loss_sum").get_to(p.epoch_loss_sum);
    j.at("epoch_samples").get_to(p.epoch_samples);
    j.at("validate").get_to(p.validate);
    j.at("next_validation").get_to(p.next_validation);
    j.at("finished").get_to(p.finished);
    j.at("validation").get_to(p.validation);
    p.statistics = gns::GradientStatistics::from_json(j.at("statistics"));
  } catch (const json::exception& error) {
    fail("the saved progress cannot be read: {}", error.what());
  }
  return p;
}

}  // namespace adaptdl
