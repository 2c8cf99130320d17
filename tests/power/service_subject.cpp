// Every job that a submission was answered for is there, as the last answered change has it, with
// its project; what was told to have ended or to be deleted stays so.

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/runner/granted_job.h"
#include "core/cluster/local/store.h"
#include "core/cluster/local/sweep.h"
#include "tests/power/subject.h"

namespace power {
namespace {

using adaptdl::local::JobRecord;
using adaptdl::local::JobStore;
using nlohmann::json;

constexpr size_t kMostProjectBytes = 1u << 20;

// A value that requests change: the one that was told last, and those begun since.
template <typename T>
class Told {
 public:
  void begin(T value) { begun_.insert(value); }
  void done(T value) {
    told_ = value;
    begun_.clear();
  }
  bool allows(const T& value) const { return !told_ || *told_ == value || begun_.contains(value); }
  bool is_told(const T& value) const { return told_ == value; }

 private:
  std::optional<T> told_;
  std::set<T> begun_;
};

struct Job {
  Told<bool> there, suspended, cancelled;
  Told<std::pair<int, int>> replicas;
  std::optional<std::string> project, ended;
};

class Service : public Subject {
 public:
  void mark(const std::string& text) override {
    const bool done = text.starts_with("done ");
    const json what = json::parse(text.substr(text.find(' ')));
    const auto set = [&](auto& value, auto to) { done ? value.done(to) : value.begin(to); };
    const auto name = [&](const char* kind) { return what.value(kind, ""); };
    if (what.contains("submit")) {
      Job& job = jobs_[name("submit")];
      set(job.there, true);
      if (what["project"].is_string()) job.project = what["project"];
    } else if (what.contains("scale")) {
      set(jobs_[name("scale")].replicas, std::pair(what["min"].get<int>(), what["max"].get<int>()));
    } else if (what.contains("suspended")) {
      set(jobs_[name("suspended")].suspended, what["is"].get<bool>());
    } else if (what.contains("cancel")) {
      set(jobs_[name("cancel")].cancelled, true);
    } else if (what.contains("ended")) {
      jobs_[name("ended")].ended = name("phase");
    } else {
      set(jobs_[name("delete")].there, false);
    }
  }

  std::string check(const std::string& tree) override {
    adaptdl::local::LocalPaths paths;
    paths.folder = tree + "/local";
    paths.database = paths.folder + "/state.db";
    paths.jobs = paths.folder + "/jobs";
    adaptdl::make_directories(paths.jobs, 0700);
    std::map<std::string, JobRecord> stored;
    {
      JobStore store(paths.database, adaptdl::Database::Mode::write);
      store.all([&](JobRecord& record) { stored[record.name] = record; });
    }
    adaptdl::local::sweep_jobs(paths,
                               [&](const std::string& name) { return stored.contains(name); });
    for (const auto& [name, job] : jobs_) {
      const auto found = stored.find(name);
      const bool there = found != stored.end();
      std::string problem;
      if (!job.there.allows(there)) {
        problem = there ? "is there again" : "is lost";
      } else if (there) {
        problem = of(job, found->second, {paths.job(name)});
      } else if (adaptdl::path_exists(paths.job(name)) && job.there.is_told(false)) {
        problem = "has left its folder";
      }
      if (!problem.empty()) return fmt::format("job {} {}", name, problem);
    }
    return "";
  }

 private:
  static std::string of(const Job& job, const JobRecord& record,
                        const adaptdl::local::JobFolder& folder) {
    if (!job.replicas.allows({record.min_replicas, record.max_replicas})) {
      return fmt::format("has replicas {}:{}", record.min_replicas, record.max_replicas);
    }
    if (!job.suspended.allows(record.suspended)) return "forgot whether it is suspended";
    if (!job.cancelled.allows(record.cancelled)) return "forgot that it is cancelled";
    if (job.ended && (!record.ended() || record.phase != *job.ended)) {
      return fmt::format("was told to be {}, and is {}", *job.ended, record.phase);
    }
    if (!job.there.is_told(true)) return "";  // its submission was not answered
    // Without a project the service writes the folder again until the job has run.
    if (!job.project && (!record.ended() || !record.started_s)) return "";
    if (!adaptdl::is_directory(folder.path)) return "has no folder";
    adaptdl::local::read_granted_job(folder);  // throws if it is not whole
    if (!job.project) return "";
    const std::string file = folder.project() + "/run.sh";
    if (!adaptdl::path_exists(file)) return "has lost its project";
    return adaptdl::read_file(file, kMostProjectBytes) == *job.project ? ""
                                                                       : "has a damaged project";
  }

  std::map<std::string, Job> jobs_;
};

}  // namespace

std::unique_ptr<Subject> service_subject() {
  return std::make_unique<Service>();
}

}  // namespace power
