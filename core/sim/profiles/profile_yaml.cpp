#include "core/sim/profiles/profile_yaml.h"

#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/json.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxBytes = 16u << 20;
constexpr int64_t kMost = std::numeric_limits<int>::max();

template <typename T>
void read_optional(YamlMapping& from, std::string_view key, std::optional<T>& value) {
  T number{};
  if (from.read(key, number, 1, sizeof(T) == sizeof(int) ? kMost : kMaxBatch)) value = number;
}

void read_atomic_bounds(YamlMapping& from, Measurements& into) {
  read_optional(from, "atomic_min", into.atomic_min);
  read_optional(from, "atomic_max", into.atomic_max);
}

StepTime step_time(YamlMapping& from) {
  return {from.require("step_s").number(above(0)), from.require("sync_s").number(at_least(0))};
}

int64_t samples(YamlMapping& from, std::string_view key) {
  return from.require(key).integer(1, kMaxBatch);
}

PlacementMeasurement placement_from(const YamlNode& node) {
  YamlMapping from(node);
  PlacementMeasurement result;
  for (const YamlNode& count : from.require("gpus").list(1)) {
    result.gpus.push_back(static_cast<int>(count.integer(1, kMost)));
  }
  result.atomic = samples(from, "atomic");
  result.time = step_time(from);
  from.finish();
  return result;
}

SizeMeasurement size_from(const YamlNode& node) {
  YamlMapping from(node);
  SizeMeasurement result;
  result.nodes = static_cast<int>(from.require("nodes").integer(1, kMost));
  result.replicas = static_cast<int>(from.require("replicas").integer(result.nodes, kMost));
  result.atomic = samples(from, "atomic");
  result.time = step_time(from);
  from.finish();
  return result;
}

ValidationRun run_from(const YamlNode& node) {
  YamlMapping from(node);
  ValidationRun run;
  run.batch = samples(from, "batch");
  for (const YamlNode& item : from.require("epochs").list(1)) {
    YamlMapping row(item);
    ValidationRun::Row end;
    end.progress = row.require("progress").number(above(0));
    end.iterations = row.require("iterations").number(above(0));
    end.grad.sqr = row.require("grad_sqr").number(at_least(0));
    end.grad.var = row.require("grad_var").number(at_least(0));
    row.finish();
    run.epochs.push_back(end);
  }
  from.finish();
  return run;
}

void read_lists(YamlMapping& from, const YamlNode& placements, Measurements& into) {
  for (const auto& node : placements.list(1)) into.placements.push_back(placement_from(node));
  if (const YamlNode sizes = from.find("sizes"); sizes.present()) {
    for (const auto& node : sizes.list()) into.sizes.push_back(size_from(node));
  }
}

// No clock and no statistic has more digits; counts may have more.
std::string digits(double value) {
  return fmt::format("{:.7g}", value);
}

template <typename T>
std::string bound_yaml(const char* key, const std::optional<T>& value, const char* indent) {
  return value ? fmt::format("{}{}: {}\n", indent, key, *value) : "";
}

std::string measurements_yaml(const Measurements& measured, const char* indent) {
  std::string text = bound_yaml("atomic_min", measured.atomic_min, indent) +
                     bound_yaml("atomic_max", measured.atomic_max, indent) + indent +
                     "placements:\n";
  for (const PlacementMeasurement& it : measured.placements) {
    text += fmt::format("{}  - {{gpus: [{}], atomic: {}, step_s: {}, sync_s: {}}}\n", indent,
                        fmt::join(it.gpus, ", "), it.atomic, digits(it.time.step_s),
                        digits(it.time.sync_s));
  }
  if (!measured.sizes.empty()) text += fmt::format("{}sizes:\n", indent);
  for (const SizeMeasurement& it : measured.sizes) {
    text += fmt::format("{}  - {{nodes: {}, replicas: {}, atomic: {}, step_s: {}, sync_s: {}}}\n",
                        indent, it.nodes, it.replicas, it.atomic, digits(it.time.step_s),
                        digits(it.time.sync_s));
  }
  return text;
}

}  // namespace

void read_kind_bounds(YamlMapping& from, Measurements& into) {
  for (const std::string& key : from.keys()) {
    if (key != "max_replicas") continue;
    from.find(key).refuse("is the same for all kinds; give it outside of kinds");
  }
  read_atomic_bounds(from, into);
}

void read_bounds(YamlMapping& from, ProfileData& data) {
  read_atomic_bounds(from, data);
  read_optional(from, "initial_batch", data.initial_batch);
  read_optional(from, "max_batch", data.max_batch);
  read_optional(from, "max_replicas", data.max_replicas);
  read_optional(from, "fixed_batch", data.fixed_batch);
  const auto read = [&from](std::string_view key, std::optional<double>& value) {
    double seconds = 0;
    if (from.read(key, seconds, at_least(0))) value = seconds;
  };
  read("rescale_s", data.rescale_s);
  read("told_rescale_s", data.told_rescale_s);
  read("start_s", data.start_s);
}

YamlMapping profile_mapping(std::string_view text, const std::string& path) {
  const YamlLimits limits{.max_bytes = kMaxBytes, .max_nodes = 500'000};
  return YamlMapping(parse_yaml(text, path, {}, limits), true);
}

ProfileData parse_profile_yaml(std::string_view text, const std::string& path) {
  return profile_from(profile_mapping(text, path).node(), file_stem(path));
}

ProfileData profile_from(const YamlNode& profile, const std::string& application) {
  ProfileData data;
  data.application = application;
  data.whole_seconds = false;
  YamlMapping top(profile, true);
  read_bounds(top, data);
  const YamlNode kinds = top.find("kinds");
  if (kinds.present()) {
    YamlMapping by_kind(kinds);
    for (const std::string& kind : by_kind.keys()) {
      YamlMapping from(by_kind.require(kind));
      Measurements& measured = data.kinds[kind];
      read_kind_bounds(from, measured);
      read_lists(from, from.require("placements"), measured);
      from.finish();
    }
    by_kind.finish();
  }
  const YamlNode placements = kinds.present() ? top.find("placements") : top.require("placements");
  if (placements.present()) read_lists(top, placements, data);
  for (const auto& node : top.require("validation").list(1)) data.runs.push_back(run_from(node));
  top.finish();
  return data;
}

std::string profile_yaml(const ProfileData& data, const std::string& heading) {
  std::string text;
  std::istringstream lines(heading);
  for (std::string line; std::getline(lines, line);) text += "# " + line + "\n";
  const auto bound = [&text](const char* key, const auto& value) {
    if (value) text += bound_yaml(key, value, "");
  };
  bound("initial_batch", data.initial_batch);
  bound("max_batch", data.max_batch);
  bound("max_replicas", data.max_replicas);
  bound("fixed_batch", data.fixed_batch);
  if (data.rescale_s) text += fmt::format("rescale_s: {}\n", digits(*data.rescale_s));
  if (data.start_s) text += fmt::format("start_s: {}\n", digits(*data.start_s));
  if (!data.placements.empty()) text += measurements_yaml(data, "");
  if (!data.kinds.empty()) text += "kinds:\n";
  for (const auto& [kind, measured] : data.kinds) {
    text += fmt::format("  {}:\n", dump_json(Json(kind))) + measurements_yaml(measured, "    ");
  }
  text += "validation:\n";
  for (const ValidationRun& run : data.runs) {
    text += fmt::format("  - batch: {}\n    epochs:\n", run.batch);
    for (const auto& row : run.epochs) {
      text += fmt::format("      - {{progress: {}, iterations: {}, grad_sqr: {}, grad_var: {}}}\n",
                          row.progress, row.iterations, digits(row.grad.sqr), digits(row.grad.var));
    }
  }
  return text;
}

Profile checked_profile(ProfileData data, const std::string& path) {
  try {
    return Profile(std::move(data));
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

Profile read_profile_yaml(const std::string& path) {
  return checked_profile(parse_profile_yaml(read_file(path, kMaxBytes), path), path);
}

}  // namespace adaptdl
