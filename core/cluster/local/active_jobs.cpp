#include "core/cluster/local/active_jobs.h"

#include <malloc.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/formats/json.h"
#include "core/job/hints.h"

namespace adaptdl::local {
namespace {

constexpr std::chrono::seconds kStoreRetry{1};

JobLikeness likeness_of(const std::string& name, const JobSpec& spec) {
  const Json run = Json::array({spec.arguments, spec.settings, spec.environment, spec.directory});
  return {fmt::format("{} {} {}", job_kind_name(spec.kind), name_stem(name), spec.program),
          dump_json(run)};
}

// Logs the event, too.
EventRecord event_of(const ActiveJob& job, const char* kind, const std::string& message,
                     bool warning = false) {
  log_at(warning ? LogLevel::warning : LogLevel::info, "{}: {}{}{}", job.record.name, kind,
         message.empty() ? "" : ": ", message);
  return {0, job.record.name, wall_now_s(), kind, message, warning};
}

}  // namespace

ActiveJobs::ActiveJobs(const std::string& database) : store_(database, Database::Mode::write) {}

std::vector<ActiveJobs::Loaded> ActiveJobs::load(const Machine& machine) {
  store_.succeeded(LengthHistory::kMost, [&](const JobRecord& record) {
    try {
      const JobSpec spec = job_spec_from_json(parse_json(record.spec, record.name), record.name);
      history_.add(likeness_of(record.name, spec), record.service_s);
    } catch (const Error&) {  // of another version: nothing is learned from it
    }
  });
  std::vector<Loaded> loaded;
  store_.unfinished([&](JobRecord& record) {
    const std::string& name = record.name;
    ActiveJob& job = jobs_[name];
    job.record = record;
    job.start_s = record.start_cost_s;
    loaded.push_back({&job, ""});
    job.state.wanted = record.replicas;
    job.state.cancelled = record.cancelled;
    job.counted = Monotonic::now();
    try {
      job.spec = job_spec_from_json(parse_json(record.spec, name), name);
    } catch (const Error& error) {  // one invalid job must not stop the service
      loaded.back().problem = error.what();
      return;
    }
    job.likeness = likeness_of(name, job.spec);
    job.state.slots_per_replica = slots_per_replica(machine, job.spec);
    job.state.restarts = job.spec.kind == JobSpec::Kind::command;
    try {
      std::vector<std::string> ignored;
      if (!record.hints.empty()) job.hints = job_hints(parse_hints(record.hints, name, ignored));
    } catch (const Error& error) {  // the job will send new hints
      log_warning("{}", error.what());
      job.record.hints.clear();
    }
  });
  return loaded;
}

ActiveJob& ActiveJobs::add(ActiveJob job) {
  job.likeness = likeness_of(job.record.name, job.spec);
  const EventRecord event = event_of(job, "Submitted", job.record.message);
  store_.add(job.record, &event);
  ActiveJob& added = jobs_[job.record.name] = std::move(job);
  changed();
  return added;
}

ActiveJob* ActiveJobs::find(const std::string& name) {
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : &found->second;
}

void ActiveJobs::save(ActiveJob& job) {
  if (!job.record.ended()) job.record.phase = phase_text(job);
  job.record.start_cost_s = job.start_s;
  // Users are told of ends and cancellations. Progress is cheap to lose, but a wait for the disk at
  // each step of each job is not cheap.
  const bool told = job.record.ended() || job.record.cancelled;
  try {
    store_.update(job.record, told ? JobStore::Sync::now : JobStore::Sync::later);
    job.unsaved = false;
    problem_.clear();
  } catch (const Error& error) {
    note_problem(error);
    job.unsaved = true;
  }
}

void ActiveJobs::note_problem(const Error& error) {
  if (problem_.empty()) log_error("{}; jobs keep running, and the write is retried", error.what());
  problem_ = error.what();
  retry_at_ = Monotonic::now() + kStoreRetry;
}

void ActiveJobs::change(ActiveJob& job, const char* kind, const std::string& message,
                        const std::function<void()>& act) {
  const JobRecord record = job.record;
  const JobState state = job.state;
  try {
    act();
    job.record.phase = phase_text(job);
    const EventRecord event = event_of(job, kind, message);
    store_.update(job.record, JobStore::Sync::now, &event);
  } catch (const Error& error) {
    job.record = record;
    job.state = state;
    fail("{}; nothing has changed: try again once the disk can be written", error.what());
  }
  job.unsaved = false;
  problem_.clear();
  changed();
}

void ActiveJobs::note(const ActiveJob& job, const char* kind, const std::string& message,
                      bool warning) {
  const EventRecord event = event_of(job, kind, message, warning);
  try {
    store_.add_event(event);
  } catch (const Error& error) {
    log_warning("lost an event: {}", error.what());
  }
}

void ActiveJobs::end(ActiveJob& job, const std::string& phase, const std::string& reason,
                     const std::string& message, std::optional<int> exit_code) {
  job.record.phase = phase;
  job.record.reason = reason;
  job.record.message = message;
  if (exit_code) job.record.exit_code = *exit_code;
  job.record.ended_s = wall_now_s();
  job.record.replicas = job.state.wanted = 0;
  if (phase == "Succeeded") history_.add(job.likeness, job.record.service_s);
  note(job, phase.c_str(), message, phase == "Failed");
  save(job);
  changed();
}

std::optional<double> ActiveJobs::length_rank(const ActiveJob& job) const {
  return history_.rank(job.likeness, job.record.service_s);
}

void ActiveJobs::settle() {
  for (auto& [name, job] : jobs_) {
    if (job.unsaved && Monotonic::now() >= retry_at_) save(job);
  }
  // A job stays in memory until its record is on disk.
  const size_t ended = std::erase_if(jobs_, [](const auto& entry) {
    return entry.second.record.ended() && !entry.second.unsaved;
  });
  // Returns the memory of many ended jobs to the system once the service is idle.
  if (ended > 0 && jobs_.empty()) ::malloc_trim(0);
}

TimePoint ActiveJobs::retry_at() const {
  for (const auto& [name, job] : jobs_) {
    if (job.unsaved) return retry_at_;
  }
  return TimePoint::max();
}

}  // namespace adaptdl::local
