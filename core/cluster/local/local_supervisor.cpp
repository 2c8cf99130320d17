#include "core/cluster/local/local_supervisor.h"

#include <sys/eventfd.h>

#include "core/base/error.h"
#include "core/base/log.h"

namespace adaptdl::local {

namespace {

constexpr const char* kNamespace = "default";
constexpr const char* kAddress = "127.0.0.1";

}  // namespace

LocalSupervisor::LocalSupervisor() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) fail_errno(errno, "cannot create an event descriptor");
}

LocalSupervisor::~LocalSupervisor() {
  supervisor_.reset();
}

void LocalSupervisor::serve(uint16_t port) {
  try {
    if (port != 0) return listen_at(port);
  } catch (const Error& error) {
    log_warning(
        "{}; the supervisor uses another port; running commands learn it when they next restart",
        error.what());
  }
  try {
    reserved_ = launch::reserve_port();
    return listen_at(static_cast<uint16_t>(reserved_.number));
  } catch (const Error&) {  // any other one will do
    reserved_ = {};
  }
  listen_at(0);
}

void LocalSupervisor::listen_at(uint16_t port) {
  HttpServerOptions options;
  options.address = kAddress;
  options.port = port;
  supervisor_ = std::make_unique<Supervisor>(*this, options);
}

uint16_t LocalSupervisor::port() const {
  return supervisor_->port();
}

std::string LocalSupervisor::url() const {
  return fmt::format("http://{}:{}", kAddress, port());
}

void LocalSupervisor::add(const std::string& job, const std::string& token) {
  const std::lock_guard lock(mutex_);
  jobs_[job] = {token, 0};
}

void LocalSupervisor::live(const std::string& job, int replicas) {
  {
    const std::lock_guard lock(mutex_);
    int& known = jobs_.at(job).replicas;
    if (known == replicas) return;
    known = replicas;
  }
  supervisor_->changed();
}

void LocalSupervisor::gone(const std::string& job) {
  const std::lock_guard lock(mutex_);
  jobs_.at(job).replicas = 0;
}

void LocalSupervisor::remove(const std::string& job) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(job);
  hints_.erase(job);  // another job may get its name
}

std::map<std::string, nlohmann::json> LocalSupervisor::take_hints() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(hints_, {});
}

std::optional<SupervisedJob> LocalSupervisor::find(const std::string& job_namespace,
                                                   const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(name);
  if (job_namespace != kNamespace || found == jobs_.end()) return std::nullopt;
  return SupervisedJob{found->second.token};
}

// All replicas are on this machine, so rank 0 of every generation is here: no replica has to wait
// until the others exist.
std::optional<std::vector<std::string>> LocalSupervisor::addresses(const std::string&,
                                                                   const std::string& name,
                                                                   int64_t) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second.replicas == 0) return std::nullopt;
  return std::vector<std::string>(static_cast<size_t>(found->second.replicas), kAddress);
}

void LocalSupervisor::hints(const std::string&, const std::string& name,
                            const SchedulingHints& hints) {
  {
    const std::lock_guard lock(mutex_);
    hints_[name] = to_json(hints);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace adaptdl::local
