#include "core/sim/profiles/profile_files.h"

#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/csv.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxBytes = 16u << 20;
constexpr int64_t kMost = std::numeric_limits<int>::max();

// The bounds of published applications, for ProfileData.
struct PublishedBounds {
  std::string_view application;
  std::optional<int64_t> atomic_max;
  std::optional<int> max_replicas;
  std::optional<int64_t> fixed_batch;
};
constexpr PublishedBounds kPublished[] = {
    {"ncf", std::nullopt, 1, 32768},
    {"yolov3", 8, std::nullopt, std::nullopt},
};

bool ends_with(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         std::string_view(text).substr(text.size() - suffix.size()) == suffix;
}

StepTime step_time(const CsvTable& table, size_t row) {
  return {table.number(row, "step_time", 0), table.number(row, "sync_time", 0)};
}

YamlMapping mapping_of(std::string_view text, const std::string& path) {
  const YamlLimits limits{.max_bytes = kMaxBytes, .max_nodes = 500'000};
  return YamlMapping(parse_yaml(text, path, {}, limits), true);
}

void read_bounds(YamlMapping& from, ProfileData& data) {
  const auto read = [&from]<typename T>(std::string_view key, std::optional<T>& value) {
    T number{};
    if (from.read(key, number, 1, sizeof(T) == sizeof(int) ? kMost : kMaxBatch)) value = number;
  };
  read("initial_batch", data.initial_batch);
  read("max_batch", data.max_batch);
  read("atomic_min", data.atomic_min);
  read("atomic_max", data.atomic_max);
  read("max_replicas", data.max_replicas);
  read("fixed_batch", data.fixed_batch);
  double rescale_s = 0, start_s = 0;
  if (from.read("rescale_s", rescale_s, at_least(0))) data.rescale_s = rescale_s;
  if (from.read("start_s", start_s, at_least(0))) data.start_s = start_s;
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

// M of validation-M.csv; empty for other names.
std::optional<int64_t> validation_batch(const std::string& name) {
  constexpr std::string_view kPrefix = "validation-", kSuffix = ".csv";
  if (!name.starts_with(kPrefix) || !ends_with(name, kSuffix)) return std::nullopt;
  return try_parse<int64_t>(
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

// Adds the path to the Profile's errors.
Profile checked(ProfileData data, const std::string& path) {
  try {
    return Profile(std::move(data));
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

}  // namespace

void parse_placements_csv(std::string text, const std::string& path, ProfileData& data) {
  const CsvTable table(std::move(text), path, {"placement", "local_bsz", "step_time", "sync_time"});
  for (size_t row = 0; row < table.rows(); ++row) {
    PlacementMeasurement measured;
    for (const char digit : table.text(row, "placement")) {
      if (digit < '1' || digit > '9') {
        table.refuse(
            row, "placement",
            "is not a placement; give a digit from 1 to 9 for each node, or a YAML profile");
      }
      measured.gpus.push_back(digit - '0');
    }
    measured.atomic = table.integer(row, "local_bsz", 1, kMaxBatch);
    measured.time = step_time(table, row);
    data.placements.push_back(std::move(measured));
  }
}

void parse_scalability_csv(std::string text, const std::string& path, ProfileData& data) {
  const CsvTable table(std::move(text), path,
                       {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"});
  for (size_t row = 0; row < table.rows(); ++row) {
    data.sizes.push_back({static_cast<int>(table.integer(row, "num_nodes", 1, kMost)),
                          static_cast<int>(table.integer(row, "num_replicas", 1, kMost)),
                          table.integer(row, "local_bsz", 1, kMaxBatch), step_time(table, row)});
  }
}

void parse_validation_csv(std::string text, const std::string& path, int64_t batch,
                          ProfileData& data) {
  const CsvTable table(std::move(text), path,
                       {"progress", "iteration", "metric", "grad_sqr", "grad_var"});
  ValidationRun run;
  run.batch = batch;
  for (size_t row = 0; row < table.rows(); ++row) {
    table.number(row, "metric");  // not used, but must be a number
    run.epochs.push_back({table.number(row, "progress", 0),
                          table.number(row, "iteration", 0),
                          {table.number(row, "grad_sqr", 0), table.number(row, "grad_var", 0)}});
  }
  data.runs.push_back(std::move(run));
}

ProfileData parse_profile_yaml(std::string_view text, const std::string& path) {
  return profile_from(mapping_of(text, path).node(), file_stem(path));
}

ProfileData profile_from(const YamlNode& profile, const std::string& application) {
  ProfileData data;
  data.application = application;
  data.whole_seconds = false;
  YamlMapping top(profile, true);
  read_bounds(top, data);
  for (const auto& node : top.require("placements").list(1)) {
    data.placements.push_back(placement_from(node));
  }
  if (const YamlNode sizes = top.find("sizes"); sizes.present()) {
    for (const auto& node : sizes.list()) data.sizes.push_back(size_from(node));
  }
  for (const auto& node : top.require("validation").list(1)) data.runs.push_back(run_from(node));
  top.finish();
  return data;
}

std::string profile_yaml(const ProfileData& data, const std::string& heading) {
  // No clock and no statistic has more digits; counts may have more.
  const auto digits = [](double value) { return fmt::format("{:.7g}", value); };
  std::string text;
  std::istringstream lines(heading);
  for (std::string line; std::getline(lines, line);) text += "# " + line + "\n";
  const auto bound = [&text](const char* key, const auto& value) {
    if (value) text += fmt::format("{}: {}\n", key, *value);
  };
  bound("initial_batch", data.initial_batch);
  bound("max_batch", data.max_batch);
  bound("atomic_min", data.atomic_min);
  bound("atomic_max", data.atomic_max);
  bound("max_replicas", data.max_replicas);
  bound("fixed_batch", data.fixed_batch);
  if (data.rescale_s) text += fmt::format("rescale_s: {}\n", digits(*data.rescale_s));
  if (data.start_s) text += fmt::format("start_s: {}\n", digits(*data.start_s));
  text += "placements:\n";
  for (const PlacementMeasurement& it : data.placements) {
    text += fmt::format("  - {{gpus: [{}], atomic: {}, step_s: {}, sync_s: {}}}\n",
                        fmt::join(it.gpus, ", "), it.atomic, digits(it.time.step_s),
                        digits(it.time.sync_s));
  }
  if (!data.sizes.empty()) text += "sizes:\n";
  for (const SizeMeasurement& it : data.sizes) {
    text += fmt::format("  - {{nodes: {}, replicas: {}, atomic: {}, step_s: {}, sync_s: {}}}\n",
                        it.nodes, it.replicas, it.atomic, digits(it.time.step_s),
                        digits(it.time.sync_s));
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

Profile read_profile_folder(const std::string& folder) {
  ProfileData data;
  data.application = file_name(folder);
  const auto path_of = [&](const char* name) { return join_path(folder, name); };
  const std::string placements = path_of("placements.csv");
  parse_placements_csv(read_file(placements, kMaxBytes), placements, data);
  if (const std::string path = path_of("scalability.csv"); path_exists(path)) {
    parse_scalability_csv(read_file(path, kMaxBytes), path, data);
  }
  for (const auto& name : list_directory(folder)) {
    if (const auto batch = validation_batch(name)) {
      const std::string path = join_path(folder, name);
      parse_validation_csv(read_file(path, kMaxBytes), path, *batch, data);
    }
  }
  if (const std::string path = path_of("bounds.yaml"); path_exists(path)) {
    YamlMapping bounds = mapping_of(read_file(path, kMaxBytes), path);
    read_bounds(bounds, data);
    bounds.finish();
  } else {
    for (const auto& known : kPublished) {
      if (known.application != data.application) continue;
      data.atomic_max = known.atomic_max;
      data.max_replicas = known.max_replicas;
      data.fixed_batch = known.fixed_batch;
    }
  }
  return checked(std::move(data), folder);
}

Profile read_profile_yaml(const std::string& path) {
  return checked(parse_profile_yaml(read_file(path, kMaxBytes), path), path);
}

Profiles read_profiles(const std::string& directory) {
  Profiles profiles;
  const auto add = [&](Profile profile, const std::string& path) {
    const std::string name = profile.application();
    if (!profiles.emplace(name, std::move(profile)).second) {
      fail("{}: application {} has a folder and a YAML file; remove one of them", path, name);
    }
  };
  for (const auto& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    if (ends_with(name, ".yaml")) {
      add(read_profile_yaml(path), path);
    } else if (path_exists(join_path(path, "placements.csv"))) {
      add(read_profile_folder(path), path);
    }
  }
  if (profiles.empty()) {
    fail("{}: contains no profile; it needs folders with a placements.csv, or .yaml files",
         directory);
  }
  return profiles;
}

}  // namespace adaptdl
