#include "core/cluster/local/service.h"

#include <algorithm>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/sweep.h"
#include "core/job/hints.h"

namespace adaptdl::local {

namespace {

constexpr double kEventGap = 0.1;         // s between rounds when jobs come and go
constexpr size_t kMaxRequest = 4u << 20;  // bytes: a job's specification
constexpr double kPolicyTime = 0.3;       // s of one round's search, at most
constexpr std::chrono::seconds kAfterTrouble{1};
constexpr const char* kPortFact = "supervisor_port";

Fd take_lock(const LocalPaths& paths) {
  make_directories(paths.folder, 0700);
  make_directories(paths.jobs, 0700);
  Fd lock = open_file(paths.lock, O_RDWR | O_CREAT, 0600);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto holder = service_process();
    fail(
        "another adaptdl service runs for you here ({}{}); `adaptdl serve --stop` ends it, jobs go "
        "on",
        paths.folder, holder ? fmt::format(", process {}", holder->pid) : "");
  }
  const pid_t pid = getpid();
  const std::string text = fmt::format("{} {}\n", pid, process_start_time(pid).value_or(0));
  // If it cannot be written, nobody knows the process, but by its socket.
  if (::ftruncate(lock.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t n = ::pwrite(lock.get(), text.data(), text.size(), 0);
  }
  return lock;
}

}  // namespace

Service::Service(const ServiceOptions& options)
    : options_(options),
      lock_(take_lock(options.paths)),
      store_(options.paths.database, Database::Mode::write),
      signals_({SIGINT, SIGTERM, SIGHUP}),
      machine_(
          this_machine(options.slots ? options.slots : read_service_config(options.config).slots)),
      slots_(machine_.slots),
      started_(rfc3339(std::chrono::system_clock::now())) {
  configure();
  // Clients that run know the address: it stays the same, if it can be had.
  const auto port = try_parse<uint16_t>(store_.value(kPortFact).value_or(""));
  supervised_.serve(port.value_or(0));
  url_ = supervised_.url();
  if (port != supervised_.port()) {
    store_.set_value(kPortFact, std::to_string(supervised_.port()));
  }
  adopt();
  listen();
}

void Service::listen() {
  const auto at = [this](const std::string& socket) {
    return std::make_unique<launch::ControlServer>(
        socket, [this](const nlohmann::json& request) { return on_request(request); }, kMaxRequest);
  };
  try {
    control_ = at(options_.paths.socket);
  } catch (const Error& error) {  // not every file system can hold a socket
    if (options_.paths.other_socket.empty()) throw;
    log_warning("{}; commands reach the service at {}", error.what(), options_.paths.other_socket);
    control_ = at(options_.paths.other_socket);
  }
}

void Service::configure() {
  ServiceConfig config = read_service_config(options_.config);
  if (!options_.slots && this_machine(config.slots).slots != machine_.slots) {
    log_warning("{}: slots: counts from the next start of the service; {} are shared out now",
                options_.config, machine_.slots);
  }
  if (options_.policy) {
    config.policy = *options_.policy;
    config.options = options_.policy_options;
  }
  policy_ = make_policy(config.policy, config.options);
  AllocatorOptions options;
  options.interval_s = config.interval_s;
  options.event_gap_s = kEventGap;
  options.policy_limit_s = kPolicyTime;
  allocator_ = std::make_unique<Allocator>(*this, *policy_, options);
  config_ = std::move(config);
}

// What an earlier service left: jobs that run, that ended since, that wait.
void Service::adopt() {
  std::vector<std::pair<LocalJob*, std::string>> unreadable;
  store_.unfinished([&](JobRecord& record) {
    LocalJob& job = jobs_[record.name];
    job.record = record;
    job.state.wanted = record.replicas;
    job.state.cancelled = record.cancelled;
    job.counted = Monotonic::now();
    supervised_.add(record.name, record.token);
    job.runner = RunnerProcess::find(options_.paths.job(record.name));
    try {
      job.spec = job_spec_from_json(parse_json(record.spec, record.name), record.name);
    } catch (const Error& error) {  // one job that cannot go on is no reason to serve none
      unreadable.emplace_back(&job, error.what());
      return;
    }
    job.state.slots_per_replica = slots_per_replica(machine_, job.spec);
    try {
      std::vector<std::string> ignored;
      if (!record.hints.empty()) {
        job.hints = job_hints(parse_hints(record.hints, record.name, ignored));
      }
    } catch (const Error& error) {  // it will send others
      log_warning("{}", error.what());
    }
    if (!job.runner) return;
    job.state.live = true;
    job.runner_since = Monotonic::now();
    slots_.hold(record.name, record.slots);
    job.state.granted = slots_.held_by(record.name);
  });
  for (const auto& [job, problem] : unreadable) {
    if (job->runner) job->runner.send_signal(SIGTERM);
    end(*job, "Failed", "Invalid",
        problem + "; it was submitted to another adaptdl: delete it, and submit it again",
        std::nullopt);
  }
  for (auto& [name, job] : jobs_) {
    if (job.state.live || job.record.ended()) continue;
    const auto last = last_runner(options_.paths.job(name));
    if (!last) continue;
    if (!last->this_boot) job.record.failures = 0;  // the machine's, not the job's
    job.runner_since = Monotonic::now();            // how long it lived is not known
    runner_ended(job, last->pid, std::nullopt);
    job.state.retry_at = Monotonic::now();
  }
  fit_to_machine();
  sweep_jobs(options_.paths, [&](const std::string& name) {
    return jobs_.contains(name) || store_.find(name).has_value();
  });
}

void Service::run() {
  log_info("adaptdl {} shares {} by policy {}; supervisor at {}", options_.version,
           slots_text(slots_.count(), machine_.slot_kind()), config_.policy, url_);
  advance_all();
  while (!stop_) {
    wait();
    take_signals();
    control_->serve();
    take_runners();
    take_posted_hints();
    ask_runners();
    round_if_due();
    advance_all();
  }
}

void Service::wait() {
  TimePoint until = control_->deadline();
  const auto sooner = [&](TimePoint time) { until = std::min(until, time); };
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}, {supervised_.fd(), POLLIN, 0}};
  control_->add_waits(waits);
  bool shared = false;
  for (const auto& [name, job] : jobs_) {
    shared = shared || !job.record.suspended;
    if (job.state.live) {
      waits.push_back({job.runner.pidfd(), POLLIN, 0});
      if (job.query) {
        waits.push_back({job.query->fd(), POLLIN, 0});
        sooner(job.query->deadline());
      } else {
        sooner(job.ask_at);
      }
      if (job.state.stopping) sooner(job.state.kill_at);
    } else if (job.state.wanted > 0 && job.state.retry_at > Monotonic::now()) {
      sooner(job.state.retry_at);
    }
    if (job.unsaved) sooner(retry_store_);
  }
  const TimePoint now = Monotonic::now();
  if (shared) {
    sooner(now + std::chrono::duration_cast<Monotonic::duration>(
                     Seconds(std::max(0.0, allocator_->due() - now_s()))));
  }
  int timeout = -1;
  if (until != TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
  }
  ::poll(waits.data(), waits.size(), timeout);
}

void Service::take_signals() {
  for (const int signal : signals_.take()) {
    if (signal != SIGHUP) {
      stop_ = true;
      continue;
    }
    try {
      configure();
      log_info("policy {}, from {}", config_.policy, options_.config);
    } catch (const Error& error) {
      log_error("{}; the policy stays {}", error.what(), config_.policy);
    }
  }
}

// Trouble with one job (no descriptor is free, a file of its folder is damaged) is no other's: it
// is said, and what failed is tried again, a little later.
template <typename Act>
void Service::for_each_job(const Act& act) {
  for (auto& [name, job] : jobs_) {
    try {
      act(job);
    } catch (const Error& error) {
      log_warning("{}: {}", name, error.what());
      job.ask_at = job.state.retry_at = Monotonic::now() + kAfterTrouble;
    }
  }
}

void Service::take_runners() {
  for_each_job([this](LocalJob& job) {
    if (job.state.live && job.runner.ended()) {
      runner_ended(job, job.runner.pid(), job.runner.reap());
    }
  });
}

void Service::take_posted_hints() {
  for (auto& [name, hints] : supervised_.take_hints()) {
    const auto found = jobs_.find(name);
    if (found != jobs_.end()) take_hints(found->second, hints);
  }
}

void Service::ask_runners() {
  const TimePoint now = Monotonic::now();
  for_each_job([&](LocalJob& job) {
    if (!job.state.live) return;
    if (job.query) {
      if (job.query->serve()) take_answer(job);
    } else if (now >= job.ask_at) {
      ask(job, job.to_stop ? LocalJob::Query::stop : LocalJob::Query::status);
    }
  });
}

void Service::round_if_due() {
  if (now_s() < allocator_->due()) return;
  const AllocatorRound round = allocator_->round();
  for (const std::string& problem : round.problems) log_warning("{}", problem);
}

void Service::advance_all() {
  for_each_job([this](LocalJob& job) {
    if (!job.record.ended()) advance(job);
    if (job.unsaved && Monotonic::now() >= retry_store_) save(job);
  });
  // What cannot be written yet is not forgotten.
  const size_t ended = std::erase_if(jobs_, [](const auto& entry) {
    return entry.second.record.ended() && !entry.second.unsaved;
  });
  // A service that has had many jobs gives their memory back once it is idle.
  if (ended > 0 && jobs_.empty()) ::malloc_trim(0);
}

}  // namespace adaptdl::local
