#include "core/sim/workload.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/formats/csv.h"
#include "core/sim/profiles/profile.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxWorkload = 16u << 20;
constexpr int64_t kMostReplicas = 1 << 20;
constexpr int kMaxCount = 100'000;
constexpr double kMaxSeconds = 1e9;  // thirty years

// Checks of both formats; reports errors through `refuse` (the field, the problem).
class Checker {
 public:
  using Refuse = std::function<void(const char* field, const std::string& problem)>;

  explicit Checker(const std::vector<std::string>& applications) : applications_(applications) {}

  void check(const WorkloadJob& job, const Refuse& refuse) {
    if (job.submitted_s > kMaxSeconds) {  // the last of many
      refuse("every_s",
             fmt::format("submits job {} {:.3g} s after the start; at most {:.0f} s are allowed",
                         job.name, job.submitted_s, kMaxSeconds));
    }
    if (!names_.insert(job.name).second) {
      refuse("name", fmt::format("'{}' is the name of two jobs; give another", job.name));
    }
    if (std::find(applications_.begin(), applications_.end(), job.application) ==
        applications_.end()) {
      refuse("application", fmt::format("'{}' has no profile; the profiles are {}", job.application,
                                        fmt::join(applications_, ", ")));
    }
  }

 private:
  const std::vector<std::string>& applications_;
  std::set<std::string> names_;
};

std::vector<WorkloadJob> parse_csv(std::string text, const std::string& path, Checker checker) {
  const CsvTable table(std::move(text), path,
                       {"name", "time", "application", "num_replicas", "batch_size"});
  std::vector<WorkloadJob> jobs;
  for (size_t row = 0; row < table.rows(); ++row) {
    WorkloadJob job;
    job.name = table.text(row, "name");
    job.submitted_s = table.number(row, "time", 0, kMaxSeconds);
    job.application = table.text(row, "application");
    job.replicas = static_cast<int>(table.integer(row, "num_replicas", 1, kMostReplicas));
    job.batch_size = table.integer(row, "batch_size", 1, kMaxBatch);
    checker.check(job, [&](const char* field, const std::string& problem) {
      table.refuse(row, field, problem);
    });
    jobs.push_back(std::move(job));
  }
  return jobs;
}

double seconds(const YamlNode& node, const std::string& path) {
  return parse_duration(node.text(), fmt::format("{}:{}: {}", path, node.line(), node.path()), 0,
                        kMaxSeconds);
}

// One entry of the list: one job, or `count` of them.
void add_jobs(const YamlNode& node, const std::string& path, Checker& checker,
              std::vector<WorkloadJob>& jobs) {
  YamlMapping from(node);
  WorkloadJob job;
  const std::string name = from.require("name").text();
  job.application = from.require("application").text();
  job.submitted_s = seconds(from.require("submitted_s"), path);
  job.replicas = static_cast<int>(from.require("replicas").integer(1, kMostReplicas));
  job.batch_size = from.require("batch_size").integer(1, kMaxBatch);
  from.read("min_replicas", job.min_replicas, 0, kMostReplicas);
  if (const YamlNode most = from.find("max_replicas"); most.present()) {
    job.max_replicas = static_cast<int>(most.integer(std::max(1, job.min_replicas), kMostReplicas));
  }
  from.read("preemptible", job.preemptible);
  from.read("silent", job.silent);
  from.read("restartable", job.restartable);
  if (job.restartable && !job.silent) {
    from.require("restartable").refuse("only of a silent job; others rescale in any case");
  }
  if (const YamlNode restart = from.find("restart_s"); restart.present()) {
    if (!job.silent) restart.refuse("only of a silent job; the cost of others is --rescale-cost's");
    job.restart_s = seconds(restart, path);
  }
  int count = 1;
  from.read("count", count, 1, kMaxCount);
  const YamlNode every = from.find("every_s");
  const double every_s = every.present() ? seconds(every, path) : 0;
  from.finish();
  for (int i = 0; i < count; ++i) {
    job.name = count > 1 ? fmt::format("{}-{}", name, i) : name;
    checker.check(job, [&from](const char* field, const std::string& problem) {
      from.require(field).refuse(problem);
    });
    jobs.push_back(job);
    job.submitted_s += every_s;
  }
}

}  // namespace

std::vector<WorkloadJob> parse_workload(std::string text, const std::string& path,
                                        const std::vector<std::string>& applications) {
  if (path.ends_with(".csv")) return parse_csv(std::move(text), path, Checker(applications));
  if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    const YamlLimits limits{.max_bytes = kMaxWorkload, .max_nodes = 500'000};
    YamlMapping top(parse_yaml(text, path, {}, limits), true);
    std::vector<WorkloadJob> jobs = workload_from(top.require("jobs"), path, applications);
    top.finish();
    return jobs;
  }
  fail("{}: unknown workload format; the suffix must be .csv, .yaml or .yml", path);
}

std::vector<WorkloadJob> workload_from(const YamlNode& list, const std::string& path,
                                       const std::vector<std::string>& applications) {
  Checker checker(applications);
  std::vector<WorkloadJob> jobs;
  for (const YamlNode& node : list.list(1)) add_jobs(node, path, checker, jobs);
  return jobs;
}

std::vector<WorkloadJob> read_workload(const std::string& path,
                                       const std::vector<std::string>& applications) {
  return parse_workload(read_file(path, kMaxWorkload), path, applications);
}

}  // namespace adaptdl
