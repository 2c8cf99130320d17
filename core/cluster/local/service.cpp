#include "core/cluster/local/service.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/sweep.h"
#include "core/net/socket.h"

namespace adaptdl::local {

namespace {

constexpr size_t kMaxRequest = 4u << 20;  // bytes: a job's specification
constexpr const char* kPortFact = "supervisor_port";
constexpr Seconds kLockPatience{10};
constexpr auto kLockInterval = std::chrono::milliseconds(20);
// Of what looks like a leftover: its process may be that of another container, where it lives.
constexpr Seconds kLeftoverAge{3600};

bool service_listens(const LocalPaths& paths) {
  return try_connect_unix(paths.socket) ||
         (!paths.other_socket.empty() && try_connect_unix(paths.other_socket));
}

Fd take_lock(const LocalPaths& paths) {
  make_durable_directories(paths.folder, 0700);
  make_durable_directories(paths.jobs, 0700);
  Fd lock = open_file(paths.lock, O_RDWR | O_CREAT, 0600);
  const TimePoint begun = Monotonic::now();
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (const std::string host = service_elsewhere(); !host.empty()) {
      fail(
          "the service of host {} uses {}; set ADAPTDL_LOCAL_STATE to a folder of this machine's "
          "own",
          host, paths.folder);
    }
    // A service that ends listens no more, but may wait for the disk; one that starts does not
    // listen yet; and a command that looks at the lock holds it for a moment.
    if (!service_listens(paths) && seconds_since(begun) < kLockPatience.count()) {
      std::this_thread::sleep_for(kLockInterval);
      continue;
    }
    const auto holder = service_process();
    fail(
        "another adaptdl service is already running for you ({}{}); stop it with `adaptdl serve "
        "--stop`. Jobs keep running.",
        paths.folder, holder ? fmt::format(", process {}", holder->pid) : "");
  }
  const pid_t pid = getpid();
  const std::string text =
      fmt::format("{} {} {}\n", pid, process_start_time(pid).value_or(0), host_name());
  // If this write fails, commands still find the service by its socket.
  if (::ftruncate(lock.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t n = ::pwrite(lock.get(), text.data(), text.size(), 0);
  }
  return lock;
}

}  // namespace

Service::Service(const ServiceOptions& options)
    : options_(options),
      lock_(take_lock(options.paths)),
      signals_({SIGINT, SIGTERM, SIGHUP}),
      machine_(
          this_machine(options.slots ? options.slots : read_service_config(options.config).slots)),
      slots_(machine_.slots, machine_.slot_kinds),
      jobs_(options.paths.database),
      cluster_(jobs_, machine_, slots_),
      scheduling_(cluster_, read_service_config(options.config), options.scheduling),
      driver_({.jobs = jobs_,
               .slots = slots_,
               .supervisor = supervisor_,
               .machine = machine_,
               .paths = options_.paths,
               .adaptdl = options_.adaptdl}),
      requests_(jobs_, supervisor_, machine_, options_.paths),
      started_(rfc3339(std::chrono::system_clock::now())) {
  if (!machine_.notice.empty()) log_warning("{}", machine_.notice);
  // Runners, which inherit it, then number GPUs as kinds_of_gpus() does.
  if (machine_.unlike_gpus && !environment_variable("CUDA_VISIBLE_DEVICES", true)) {
    ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", !environment_variable("CUDA_DEVICE_ORDER"));
  }
  serve_programs();
  driver_.adopt();
  cluster_.fit_jobs();
  sweep_jobs(options_.paths, [this](const std::string& name) { return knows(name); });
  listen();
}

bool Service::knows(const std::string& job) {
  return jobs_.find(job) != nullptr || jobs_.store().find(job).has_value();
}

void Service::sweep() {
  try {
    sweep_incoming(
        options_.paths, [this](const std::string& name) { return knows(name); }, kLeftoverAge);
  } catch (const Error& error) {
    log_warning("{}", error.what());
  }
}

// Running replicas know the address, so the service takes the same port again if it is free.
void Service::serve_programs() {
  const auto port = try_parse<uint16_t>(jobs_.store().value(kPortFact).value_or(""));
  supervisor_.serve(port.value_or(0));
  if (port != supervisor_.port()) {
    jobs_.store().set_value(kPortFact, std::to_string(supervisor_.port()));
  }
}

void Service::listen() {
  const auto at = [this](const std::string& socket) {
    return std::make_unique<launch::ControlServer>(
        socket, [this](const Json& request) { return on_request(request); }, kMaxRequest);
  };
  try {
    control_ = at(options_.paths.socket);
  } catch (const Error& error) {  // some file systems do not support sockets
    if (options_.paths.other_socket.empty()) throw;
    log_warning("{}; the service listens at {} instead", error.what(), options_.paths.other_socket);
    control_ = at(options_.paths.other_socket);
  }
}

void Service::run() {
  log_info("adaptdl {} schedules {} with policy {}; supervisor at {}", options_.version,
           slots_text(slots_.count(), machine_.slot_kind()), scheduling_.policy(),
           supervisor_.url());
  advance();
  while (!stop_) {
    wait();
    take_signals();
    control_->serve();
    if (std::exchange(to_sweep_, false)) sweep();
    driver_.take_news();
    round_if_due();
    advance();
  }
}

void Service::wait() {
  note_changes();
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  control_->add_waits(waits);
  TimePoint until = std::min(control_->deadline(), driver_.add_waits(waits));
  const bool shared = std::any_of(jobs_.all().begin(), jobs_.all().end(),
                                  [](const auto& job) { return !job.second.record.suspended; });
  if (shared) until = std::min(until, scheduling_.due());
  int timeout = -1;
  if (until != TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Monotonic::now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
  }
  ::poll(waits.data(), waits.size(), timeout);
}

void Service::note_changes() {
  if (jobs_.take_changed()) scheduling_.changed();
}

void Service::take_signals() {
  for (const int signal : signals_.take()) {
    if (signal != SIGHUP) {
      stop_ = true;
      continue;
    }
    try {
      reload();
      log_info("policy {}, read from {}", scheduling_.policy(), options_.config);
    } catch (const Error& error) {
      log_error("{}; the service keeps policy {}", error.what(), scheduling_.policy());
    }
  }
}

void Service::reload() {
  const ServiceConfig config = read_service_config(options_.config);
  if (!options_.slots) {
    const Machine other = this_machine(config.slots);
    if (other.slots != machine_.slots || other.kinds != machine_.kinds ||
        other.slot_kinds != machine_.slot_kinds || other.common_kind != machine_.common_kind) {
      log_warning(
          "{}: slots: takes effect when the service restarts; {} slots are in use now{}",
          options_.config, machine_.slots,
          machine_.has_kinds() ? fmt::format(" ({})", fmt::join(machine_.kinds, ", ")) : "");
    }
  }
  scheduling_.configure(config);
}

void Service::round_if_due() {
  note_changes();
  scheduling_.round_if_due();
}

void Service::advance() {
  driver_.advance();
  jobs_.settle();
}

Json Service::on_request(const Json& request) {
  const int protocol = json_get_or<int>(request, "protocol", "request", kProtocol);
  const auto kind = json_get<std::string>(request, "request", "request");
  if (kind == "hello") return hello();
  if (kind == "stop") {
    stop_ = true;
    return Json::object();
  }
  if (protocol != kProtocol) {
    fail(
        "the running service is adaptdl {}, whose protocol this command does not support; restart "
        "it: `adaptdl serve --stop`, then `adaptdl serve`. Jobs keep running.",
        options_.version);
  }
  const double now = monotonic_now_s();
  if (json_get_or<double>(request, "until", "request", now) < now) {
    fail("the service was delayed and did not carry out the request; try again");
  }
  if (kind == "reload") {
    reload();
    return {{"policy", scheduling_.policy()}, {"options", scheduling_.options()}};
  }
  // After the answer, as it may take long.
  if (kind == "submit" || kind == "delete") to_sweep_ = true;
  return requests_.carry_out(kind, request);
}

Json Service::hello() const {
  Json kinds = Json::array();
  for (int kind = 0; kind < static_cast<int>(machine_.kinds.size()); ++kind) {
    const std::string name = machine_.kind_name(kind);
    if (name.empty()) continue;
    kinds.push_back(
        {{"name", name}, {"slots", machine_.slots_of(kind)}, {"slots_free", slots_.free(kind)}});
  }
  return {{"version", options_.version},
          {"protocol", kProtocol},
          {"pid", getpid()},
          {"started", started_},
          {"policy", scheduling_.policy()},
          {"options", scheduling_.options()},
          {"slot_kind", machine_.slot_kind()},
          {"slots", slots_.count()},
          {"slots_free", slots_.free()},
          {"kinds", std::move(kinds)},
          {"jobs", jobs_.size()},
          {"url", supervisor_.url()},
          {"notice", machine_.notice},
          {"problem", jobs_.problem()}};
}

}  // namespace adaptdl::local
