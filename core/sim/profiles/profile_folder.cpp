#include "core/sim/profiles/profile_folder.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/csv.h"
#include "core/sim/profiles/profile_yaml.h"
#include "core/sim/profiles/published_bounds.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxFile = 16u << 20;
constexpr int64_t kMostGpus = std::numeric_limits<int>::max();

StepTime step_time(const CsvTable& table, size_t row) {
  return {table.number(row, "step_time", 0), table.number(row, "sync_time", 0)};
}

// What stands between the prefix and the suffix; empty for other names.
std::string_view middle_of(std::string_view name, std::string_view prefix,
                           std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return {};
  return name.size() <= prefix.size() + suffix.size()
             ? std::string_view()
             : name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
}

// The kinds of placements-KIND.csv; "" for placements.csv.
std::vector<std::string> kinds_in(const std::string& folder) {
  std::vector<std::string> kinds;
  for (const std::string& name : list_directory(folder)) {
    if (name == "placements.csv") kinds.emplace_back();
    const std::string_view kind = middle_of(name, "placements-", ".csv");
    if (!kind.empty()) kinds.emplace_back(kind);
  }
  return kinds;
}

// Means of the rows with equal keys. In the order of the rows, as interpolation depends on it.
template <typename Row, typename Key>
std::vector<Row> without_duplicates(const std::vector<Row>& rows, const Key& key_of) {
  struct Mean {
    size_t at = 0;
    int count = 0;
  };
  std::map<decltype(key_of(rows[0])), Mean> seen;
  std::vector<Row> result;
  for (const Row& row : rows) {
    auto& [at, count] = seen.try_emplace(key_of(row), Mean{result.size(), 0}).first->second;
    if (++count == 1) {
      result.push_back(row);
      continue;
    }
    StepTime& mean = result[at].time;
    mean.step_s += (row.time.step_s - mean.step_s) / count;
    mean.sync_s += (row.time.sync_s - mean.sync_s) / count;
  }
  return result;
}

// The published files of some kinds repeat rows, also as placement and as size.
void merge_duplicates(Measurements& measured) {
  measured.placements =
      without_duplicates(measured.placements, [](const PlacementMeasurement& row) {
        return std::pair(canonical_placement(row.gpus), row.atomic);
      });
  measured.sizes = without_duplicates(measured.sizes, [](const SizeMeasurement& row) {
    return std::tuple(row.nodes, row.replicas, row.atomic);
  });
  std::set<std::tuple<int, int, int64_t>> placed;
  for (const PlacementMeasurement& row : measured.placements) {
    placed.emplace(static_cast<int>(row.gpus.size()),
                   std::accumulate(row.gpus.begin(), row.gpus.end(), 0), row.atomic);
  }
  std::erase_if(measured.sizes, [&](const SizeMeasurement& row) {
    return placed.contains({row.nodes, row.replicas, row.atomic});
  });
}

// Synchronisation cannot take longer than the step, but published rows say so now and then.
void slow_down(Measurements& measured, double factor) {
  const auto slow = [factor](StepTime& time) {
    time.step_s *= factor;
    time.sync_s = std::clamp(time.sync_s * factor, 0.0, time.step_s);
  };
  for (auto& row : measured.placements) slow(row.time);
  for (auto& row : measured.sizes) slow(row.time);
}

void read_measurements(const std::string& folder, const std::string& suffix, Measurements& into) {
  const auto path_of = [&](const char* name) { return join_path(folder, name + suffix); };
  const std::string placements = path_of("placements");
  parse_placements_csv(read_file(placements, kMaxFile), placements, into);
  if (const std::string path = path_of("scalability"); path_exists(path)) {
    parse_scalability_csv(read_file(path, kMaxFile), path, into);
  }
}

// The bounds of one folder; returns the factor by which steps are slower.
double read_folder_bounds(const std::string& path, ProfileData& data) {
  double slowdown = 1;
  YamlMapping bounds = profile_mapping(read_file(path, kMaxFile), path);
  read_bounds(bounds, data);
  bounds.read("slowdown", slowdown, above(0));
  if (const YamlNode kinds = bounds.find("kinds"); kinds.present()) {
    YamlMapping by_kind(kinds);
    for (auto& [kind, measured] : data.kinds) {
      const YamlNode node = by_kind.find(kind);
      if (!node.present()) continue;
      YamlMapping from(node);
      read_kind_bounds(from, measured);
      from.finish();
    }
    by_kind.finish();
  }
  bounds.finish();
  return slowdown;
}

}  // namespace

void parse_placements_csv(std::string text, const std::string& path, Measurements& into) {
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
    into.placements.push_back(std::move(measured));
  }
}

void parse_scalability_csv(std::string text, const std::string& path, Measurements& into) {
  const CsvTable table(std::move(text), path,
                       {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"});
  for (size_t row = 0; row < table.rows(); ++row) {
    into.sizes.push_back({static_cast<int>(table.integer(row, "num_nodes", 1, kMostGpus)),
                          static_cast<int>(table.integer(row, "num_replicas", 1, kMostGpus)),
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

bool is_profile_folder(const std::string& folder) {
  return is_directory(folder) && !kinds_in(folder).empty();
}

Profile read_profile_folder(const std::string& folder) {
  ProfileData data;
  data.application = file_name(folder);
  for (const std::string& kind : kinds_in(folder)) {
    if (kind.empty()) {
      read_measurements(folder, ".csv", data);
    } else {
      read_measurements(folder, "-" + kind + ".csv", data.kinds[kind]);
    }
  }
  for (const auto& name : list_directory(folder)) {
    if (const auto batch = try_parse<int64_t>(middle_of(name, "validation-", ".csv"))) {
      const std::string path = join_path(folder, name);
      parse_validation_csv(read_file(path, kMaxFile), path, *batch, data);
    }
  }
  const std::string bounds = join_path(folder, "bounds.yaml");
  const double slowdown = path_exists(bounds)
                              ? read_folder_bounds(bounds, data)
                              : add_published_bounds(data.application, !data.kinds.empty(), data);
  const auto finish = [slowdown](Measurements& measured) {
    slow_down(measured, slowdown);
    merge_duplicates(measured);
  };
  if (!data.placements.empty()) finish(data);
  for (auto& [kind, measured] : data.kinds) finish(measured);
  return checked_profile(std::move(data), folder);
}

}  // namespace adaptdl
