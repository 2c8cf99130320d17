#include "core/client/local/query.h"

#include <thread>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/client/local/curve.h"
#include "core/client/local/find_job.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/runner/job_folder.h"
#include "core/formats/json_fields.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kStatusPatience{0.5};
constexpr size_t kMaxRecord = 4u << 20;
constexpr auto kStateInterval = std::chrono::seconds(1);
constexpr int kEventPage = 1000;
constexpr int kEvents = 1000;  // the store's maximum per job

Json parsed(const std::string& text, const char* what) {
  return text.empty() ? Json() : parse_json(text, what);
}

JobEvent event_of(local::EventRecord&& event) {
  return {event.id,
          std::move(event.job),
          event.time_s,
          std::move(event.kind),
          std::move(event.message),
          event.warning};
}

std::string program_of(const local::JobRecord& job) {
  return text_at(parse_json(job.spec, "job " + job.name), "program");
}

std::string log_folder(const std::string& name, bool is_job) {
  if (is_job) return local::JobFolder{local::local_paths().job(name)}.logs();
  const Json record = launch::read_record(name);
  if (record.is_object()) return json_get<std::string>(record, "log_dir", "record of run " + name);
  // Unknown run: the error of the request lists the live runs.
  const Json status = launch::request(name, {{"request", "status"}});
  return json_get<std::string>(status, "log_dir", "run " + name);
}

// The status that the job's runner reports while the job has replicas; else the last runner's final
// one (with `ended_too`), else null.
Json job_status(const local::JobRecord& job, bool ended_too) {
  if (!job.ended() && (job.replicas > 0 || !job.slots.empty())) {
    if (auto status = local::runner_status(job.name, kStatusPatience)) return std::move(*status);
  }
  if (!ended_too) return nullptr;
  const std::string path = local::JobFolder{local::local_paths().job(job.name)}.run_record();
  try {
    if (path_exists(path)) return parse_json(read_file(path, kMaxRecord), path);
  } catch (const Error&) {  // being removed, or damaged: treated as missing
  }
  return nullptr;
}

// May move from `job`.
JobView local_view(local::JobRecord&& job, Json status) {
  JobView view;
  view.name = std::move(job.name);
  view.phase = std::move(job.phase);
  view.reason = std::move(job.reason);
  view.message = std::move(job.message);
  view.why = std::move(job.why);
  view.submitted_s = job.submitted_s;
  view.started_s = job.started_s;
  view.ended_s = job.ended_s;
  view.replicas = job.replicas;
  view.slots = std::move(job.slots);
  view.restarts = job.restarts;
  view.failures = job.failures;
  view.service_s = job.service_s;
  view.min_replicas = job.min_replicas;
  view.max_replicas = job.max_replicas;
  view.suspended = job.suspended;
  view.cancelled = job.cancelled;
  view.hints = std::move(job.hints);
  view.exit_code = job.exit_code;
  view.status = std::move(status);
  return view;
}

class LocalEvents : public EventReader {
 public:
  LocalEvents(std::unique_ptr<local::JobStore> store, std::string job)
      : store_(std::move(store)), job_(std::move(job)) {}

  std::vector<JobEvent> next() override {
    if (!store_) store_ = local::open_store();
    std::vector<JobEvent> all;
    while (store_) {
      std::vector<local::EventRecord> page = store_->events(job_, after_, kEventPage);
      if (page.empty()) break;
      after_ = page.back().id;
      for (local::EventRecord& event : page) all.push_back(event_of(std::move(event)));
    }
    return all;
  }

 private:
  std::unique_ptr<local::JobStore> store_;
  std::string job_;
  int64_t after_ = 0;
};

class LocalLogs : public LogReader {
 public:
  LocalLogs(std::unique_ptr<local::JobStore> store, const LogOptions& options, bool is_job)
      : store_(std::move(store)),
        options_(options),
        is_job_(is_job),
        follower_(log_folder(options.name, is_job), options.replica) {}

  bool next(const LogLine& take, bool all) override {
    if (!begun_) follower_.tail(options_.tail, options_.since, take);
    begun_ = true;
    return follower_.next(take, all);
  }

  bool may_grow() override {
    if (!is_job_) return launch::is_live(options_.name);
    const auto job = store_->find(options_.name);
    return job && !job->ended();
  }

  size_t replicas() const override { return follower_.replicas(); }

 private:
  std::unique_ptr<local::JobStore> store_;
  const LogOptions options_;
  const bool is_job_;
  LogFollower follower_;
  bool begun_ = false;
};

class LocalQuery : public JobQuery {
 public:
  std::string title() const override { return "local, this machine"; }

  std::string headline() override {
    std::string line = "cluster local, ";
    if (!local::service_runs()) return line + "no service runs (`adaptdl serve`)";
    const Json hello = local::request_service({{"request", "hello"}});
    const auto slots = json_get<int64_t>(hello, "slots", "service");
    const auto free = json_get<int64_t>(hello, "slots_free", "service");
    line +=
        fmt::format("{} of {} in use, policy {}", slots - free,
                    local::slots_text(slots, json_get<std::string>(hello, "slot_kind", "service")),
                    json_get<std::string>(hello, "policy", "service"));
    const auto problem = json_get_or<std::string>(hello, "problem", "service", "");
    return problem.empty() ? line : line + "; " + problem;
  }

  std::vector<std::pair<Gpu, GpuLoad>> gpus() override {
    if (!asked_driver_) {
      asked_driver_ = true;
      try {
        driver_ = std::make_unique<Nvml>();
      } catch (const Error&) {  // there are none
      }
    }
    std::vector<std::pair<Gpu, GpuLoad>> all;
    for (size_t i = 0; driver_ && i < driver_->gpus().size(); ++i) {
      all.emplace_back(driver_->gpus()[i], driver_->load(i));
    }
    return all;
  }

  std::string nothing(bool ended_runs_too) const override {
    return ended_runs_too ? "There are no jobs and no runs."
                          : "There are no jobs, and no run is live; --all shows ended runs.";
  }

  void each(Detail detail, const EachJob& take) override {
    local::JobStore* const jobs = store();
    if (jobs == nullptr) return;
    const auto each = [&](local::JobRecord& record) {
      std::string program = detail == Detail::wide ? program_of(record) : "";
      Json status = job_status(record, false);
      JobView view = local_view(std::move(record), std::move(status));
      view.program = std::move(program);
      take(view);
    };
    if (detail == Detail::brief) {
      jobs->all_briefly(each);
    } else {
      jobs->all(each);
    }
  }

  void each_unfinished(const EachJob& take) override {
    if (local::JobStore* const jobs = store()) {
      jobs->unfinished([&](local::JobRecord& record) {
        Json status = job_status(record, false);
        take(local_view(std::move(record), std::move(status)));
      });
    }
  }

  void each_run(const EachRun& take) override {
    for (const launch::RunInfo& run : launch::list_runs()) take(run);
  }

  void watch(Detail detail, const EachJob& job, const EachRun& run,
             const std::function<void()>& round) override {
    for (;;) {
      each(detail, job);
      each_run(run);
      round();
      std::this_thread::sleep_for(kStateInterval);
    }
  }

  JobView find(const std::string& name) override {
    local::JobRecord job = find_job(store(), name);
    Json status = job_status(job, true);
    return local_view(std::move(job), std::move(status));
  }

  std::optional<JobView> look(const std::string& name) override {
    if (store() == nullptr) return std::nullopt;
    auto job = store()->find(name);
    if (!job) return std::nullopt;
    return local_view(std::move(*job), nullptr);
  }

  bool is_run(const std::string& name) override {
    return !find_job_or_run(store(), name).job.has_value();
  }

  std::vector<std::string> names(const std::string& prefix, int most) override {
    return job_and_run_names(store(), prefix, most);
  }
  std::vector<std::string> job_names(const std::string& prefix, int most) override {
    return store() == nullptr ? std::vector<std::string>() : store()->names(prefix, most);
  }
  JobDetails details(const JobView& job) override;

  std::unique_ptr<EventReader> events(const std::string& job, bool) override {
    return std::make_unique<LocalEvents>(local::open_store(), job);
  }

  std::unique_ptr<CurveReader> curve(const std::string& job) override {
    return read_curve(local::JobFolder{local::local_paths().job(job)}.events_file());
  }

  std::unique_ptr<LogReader> logs(const LogOptions& options) override {
    auto own = local::open_store();
    const bool is_job = find_job_or_run(own.get(), options.name).job.has_value();
    return std::make_unique<LocalLogs>(std::move(own), options, is_job);
  }

 private:
  // Null until a service has created it.
  local::JobStore* store() {
    if (!store_) store_ = local::open_store();
    return store_.get();
  }

  std::unique_ptr<local::JobStore> store_;
  std::unique_ptr<Nvml> driver_;  // null: there is none
  bool asked_driver_ = false;
};

JobDetails LocalQuery::details(const JobView& job) {
  const local::JobRecord record = find_job(store(), job.name);
  const Json spec = parsed(record.spec, "the job's specification");
  const Json hints = parsed(record.hints, "the job's hints");
  const std::string folder = local::local_paths().job(job.name);
  JobDetails details;
  details.lines = {{"Service", short_duration(job.service_s) + " of slots"}, {"Folder", folder}};
  details.sections = {
      {"Spec", spec}, {job.ended() ? "At its end" : "Runner", job.status}, {"Hints", hints}};
  details.record = {{"spec", spec}, {"hints", hints}, {"runner", job.status}, {"folder", folder}};
  for (local::EventRecord& event : store()->events(job.name, 0, kEvents)) {
    details.events.push_back(event_of(std::move(event)));
  }
  return details;
}

}  // namespace

std::unique_ptr<JobQuery> local_query() {
  return std::make_unique<LocalQuery>();
}

}  // namespace adaptdl::client
