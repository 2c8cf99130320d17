#include "runtime/session/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "runtime/comm/nccl/choice.h"
#include "runtime/session/env_place.h"
#include "runtime/session/present_run.h"

namespace adaptdl {
namespace {

using nlohmann::json;

// `adaptdl run` recognises programs of this library by this text in the executable.
__attribute__((used)) const char* const kMarker = launch::kProgramMarker;

constexpr int kConnectTimeoutSeconds = 60;
constexpr std::chrono::seconds kLongWait{1};

std::atomic<std::atomic<StopMode>*> signalled{nullptr};  // by stop_on_signals()

void on_signal(int /*number*/) {
  if (auto* stop = signalled.load()) stop->store(StopMode::checkpoint, std::memory_order_relaxed);
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// NCCL's own connections: not beyond this host where there is no other, else as ours. And all of
// them when it connects, so that what fails then is not found in a collective.
void lead_nccl(bool hosts, const std::string& interface) {
  setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  if (hosts && (interface.empty() || is_numeric_address(interface))) return;
  setenv("NCCL_SOCKET_IFNAME", hosts ? ("=" + interface).c_str() : "lo", /*overwrite=*/0);
}

json hosts_in_use(const comm::Communicator& communicator) {
  json hosts = json::array();
  for (const comm::UsedAddress& each : communicator.used_addresses()) {
    hosts.push_back(
        {{"host", each.host}, {"address", each.address}, {"interface", each.interface}});
  }
  return hosts;
}

}  // namespace

// What signals did before the session, until its end: the program, and what it starts then, may
// need them.
class Session::FormerSignals {
 public:
  FormerSignals() = default;
  ~FormerSignals() {
    for (const auto& [number, action] : actions_) sigaction(number, &action, nullptr);
    signalled = nullptr;
    if (!blocked_) return;
    const timespec now{};
    while (sigtimedwait(&*blocked_, nullptr, &now) > 0) continue;  // they were for the training
    pthread_sigmask(SIG_UNBLOCK, &*blocked_, nullptr);
  }
  FormerSignals(const FormerSignals&) = delete;

  void set(int number, void (*handler)(int), int flags) {
    struct sigaction action {
    }, before{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, &before);
    actions_.emplace_back(number, before);
  }
  void ignore(int number) { set(number, SIG_IGN, 0); }
  void block(int number) {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    if (sigismember(&before, number) == 0) blocked_ = set;
  }

 private:
  std::vector<std::pair<int, struct sigaction>> actions_;
  std::optional<sigset_t> blocked_;
};

Session::Session() {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC));
  if (const char* descriptor = std::getenv(launch::kControlFdVariable)) {
    Fd channel(std::atoi(descriptor));
    unsetenv(launch::kControlFdVariable);
    join_launcher(std::move(channel));
    return;
  }
  place_ = place_from_environment();
  if (!place_.supervisor_url.empty()) hints_ = std::make_unique<standalone::HintPoster>(place_);
  if (place_.replicas > 1) join_by_hand();
}

void Session::join_by_hand() {
  by_hand_ = true;
  standalone::Meeting meeting = standalone::meet(place_, "training");
  coordinator_ = std::move(meeting.coordinator);
  channel_ = std::move(meeting.channel);
  member_ = static_cast<uint64_t>(place_.rank);
  listener_ = std::make_unique<comm::Listener>(meeting.secret, meeting.listener);
  endpoint_ = listener_->endpoint();
  plain_links_ = !meeting.listener.encrypt;
  catcher_.emplace(std::vector<int>{SIGINT, SIGTERM});
  begin_control();  // at once: another replica may end before this one is ready to train
}

void Session::join_launcher(Fd channel) {
  channel_ = std::make_unique<launch::Channel>(std::move(channel));

  // A terminal's Ctrl-C reaches every process; only the launcher acts on it. SIGTERM is read from a
  // descriptor, so it is blocked before any thread could inherit another mask.
  former_signals_ = std::make_unique<FormerSignals>();
  for (const int number : {SIGINT, SIGPIPE, SIGXFSZ}) former_signals_->ignore(number);
  // Slurm sends its notices to every process of a job; they are meant for the launcher.
  for (const int notice : {SIGUSR1, SIGUSR2}) {
    struct sigaction before {};
    sigaction(notice, nullptr, &before);
    if (before.sa_handler == SIG_DFL) former_signals_->ignore(notice);
  }
  former_signals_->block(SIGTERM);

  const auto welcome = channel_->receive();
  if (!welcome) _exit(static_cast<int>(ExitCode::error));  // the launcher is gone
  if (welcome->at("protocol").get<int>() > launch::kProtocol) {
    fail(
        "the launcher speaks worker protocol {}, this program only {}; rebuild it against the same "
        "adaptdl",
        welcome->at("protocol").get<int>(), launch::kProtocol);
  }
  member_ = welcome->at("member").get<uint64_t>();
  settings_ = welcome->at("settings");
  const bool hosts = settings_.value("hosts", false);
  comm::ListenerOptions listener{.tcp = hosts};
  plain_links_ = settings_.value("plain_links", false);
  listener.encrypt = hosts && !plain_links_;
  links_ = settings_.value("links", 1);
  if (hosts) raise_descriptor_limit();  // for the links with many hosts
  if (const auto reach = settings_.find("reach"); hosts && reach != settings_.end()) {
    listener.reach = {
        .interface = reach->value("interface", ""),
        .advertise = reach->value("advertise", ""),
        .ports = {reach->value("first_port", uint16_t{0}), reach->value("last_port", uint16_t{0})}};
  }
  listener_ = std::make_unique<comm::Listener>(
      text_of(from_hex(welcome->at("secret").get<std::string>(), "the run's secret")), listener);
  endpoint_ = listener_->endpoint();
  if (settings_.value("device", "cpu") != "cpu") lead_nccl(hosts, listener.reach.interface);
  set_present_run({settings_.value("name", ""), settings_.value("checkpoint_dir", "")});
}

Session::~Session() {
  if (!control_.joinable()) return;
  if (by_hand_) farewell();
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
    if (connect_abort_) connect_abort_->abort("a newer generation");
  }
  changed_.notify_all();
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
  control_.join();
  if (connector_.joinable()) connector_.join();
}

void Session::farewell() {
  left_ = true;
  if (alone()) former_signals_.reset();
  if (coordinator_) coordinator_->finish();
}

void Session::begin_control() {
  control_ = std::thread([this] { control_loop(); });
}

void Session::stop_on_signals() {
  signalled = &stop_;
  former_signals_ = std::make_unique<FormerSignals>();
  for (const int number : {SIGINT, SIGTERM}) {
    former_signals_->set(number, on_signal, SA_RESTART | static_cast<int>(SA_RESETHAND));
  }
}

void Session::set_device(std::unique_ptr<comm::Device> device, const std::string& id) {
  device_ = std::move(device);
  if (!channel_ || !device_) return;
  comm::nccl::Gpu gpu{.id = id, .between_hosts = plain_links_};
  const bool wanted = !settings_.is_object() || settings_.value("nccl", true);
  const auto* nccl = wanted ? comm::nccl::load() : nullptr;
  if (nccl != nullptr) {
    nccl_.emplace(*nccl, *device_);
    gpu.version = nccl->version;
  }
  comm::nccl::add_gpu(endpoint_, gpu);
}

void Session::announce(const json& facts) {
  if (!channel_) return;
  json hello = {{"type", "hello"},
                {"protocol", launch::kProtocol},
                {"pid", getpid()},
                {"endpoint", endpoint_},
                {"accelerator", accelerators_.front()}};
  hello.update(facts);
  send(hello);
  if (!by_hand_) begin_control();
  connector_ = std::thread([this] { connect_loop(); });
}

void Session::send(const json& message) {
  if (!channel_) return;
  std::lock_guard lock(send_mutex_);
  // The control thread detects a launcher that is gone.
  channel_->send(message);
}

void Session::send_hints(const json& hints) {
  if (has_launcher()) send({{"type", "hints"}, {"hints", hints}});
  if (hints_) hints_->post(hints);
}

void Session::emit(const json& event) {
  if (rank_ == 0) send({{"type", "event"}, {"event", event}});
}

void Session::control_loop() {
  pthread_setname_np(pthread_self(), "control");
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  Fd blocked;
  if (!catcher_) blocked = Fd(signalfd(-1, &set, SFD_CLOEXEC));
  const int signals = catcher_ ? catcher_->fd() : blocked.get();
  for (;;) {
    // Also before the first wait: several messages may arrive at once, some with the welcome.
    // A replica without its launcher is useless; checkpoints are already on disk.
    if (!cut_off_ && !channel_->drain([this](const json& message) { on_message(message); })) {
      lose_channel();
    }
    pollfd waits[] = {{cut_off_ ? -1 : channel_->fd(), POLLIN, 0},
                      {signals, POLLIN, 0},
                      {wake_.get(), POLLIN, 0}};
    const int count = poll(waits, 3, std::chrono::milliseconds(kLongWait).count());
    report_waiting();
    if (count <= 0) continue;
    if (waits[2].revents) return;
    if (waits[1].revents) take_signals(signals);
  }
}

void Session::take_signals(int fd) {
  if (!catcher_) {
    signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != sizeof info) return;
    send({{"type", "leaving"}, {"reason", "SIGTERM"}});
    return;
  }
  for (const int number : catcher_->take()) {
    if (number == SIGINT && ++signals_ > 1) _exit(static_cast<int>(ExitCode::interrupted));
    send({{"type", "leaving"}, {"reason", number == SIGINT ? "SIGINT" : "SIGTERM"}});
  }
}

// The other end of the channel is gone. A replica without its launcher is useless; checkpoints are
// already on disk. Without a launcher it was rank 0: one of the others has the state, and saves it.
void Session::lose_channel() {
  if (!by_hand_) _exit(static_cast<int>(ExitCode::error));
  cut_off_ = true;
  if (left_) return;
  bool trained = false;
  uint64_t next = 0;
  {
    const std::lock_guard lock(mutex_);
    trained = trained_;
    next = newest_ + 1;
  }
  if (!trained) {
    log_error("replica {} ends: rank 0 has died", member_);
    _exit(static_cast<int>(ExitCode::error));
  }
  if (heir_ != member_) {
    log_error("replica {} ends: rank 0 has died; replica {} saves a checkpoint", member_,
              heir_.value_or(0));
    _exit(static_cast<int>(ExitCode::terminated));
  }
  log_error("rank 0 has died, and nobody replaces it here; replica {} saves a checkpoint", member_);
  on_message(
      {{"type", "generation"},
       {"generation", next},
       {"immediate", true},
       {"members",
        {{{"member", member_}, {"endpoint", endpoint_}, {"accelerator", accelerators_.front()}}}},
       {"cause", "rank 0 has died"}});
  stop_ = StopMode::checkpoint;
}

// Tells the launcher when a long wait for the others begins and ends.
void Session::report_waiting() {
  std::optional<TimePoint> since;
  uint64_t generation = 0;
  {
    std::lock_guard lock(mutex_);
    if (abortable_ && together_) {
      since = abortable_->waiting_since();
      generation = abortable_->generation();
    }
  }
  if (since && Monotonic::now() - *since < kLongWait) since.reset();
  if (since == told_waiting_) return;
  told_waiting_ = since;
  send({{"type", "waiting"}, {"generation", generation}, {"waiting", since.has_value()}});
}

void Session::on_message(const json& message) {
  const auto& type = message.at("type").get_ref<const std::string&>();
  if (type == "stop") {
    if (by_hand_) {
      log_warning("replica {} ends{}: {}", member_,
                  message.at("mode") == "now" ? "" : " after a checkpoint",
                  message.value("cause", ""));
    }
    stop_ = message.at("mode") == "now" ? StopMode::now : StopMode::checkpoint;
    if (stop_ == StopMode::now) _exit(message.value("exit", 1));
    return;
  }
  if (type != "generation") return;
  std::unique_ptr<comm::Communicator> dropped;  // its end may take a while: after the lock's
  std::lock_guard lock(mutex_);
  const auto generation = message.at("generation").get<uint64_t>();
  if (generation <= newest_) return;
  newest_ = generation;
  const json& members = message.at("members");
  if (members.size() > 1) heir_ = members[1].at("member").get<uint64_t>();
  const bool immediate = message.at("immediate").get<bool>();
  target_ = message;
  if (connect_abort_) connect_abort_->abort("a newer generation");
  // A new replica that waits for its first state loses nothing with the current generation.
  if (immediate || !trained_) {
    if (abortable_) {
      abortable_->abort("generation " + std::to_string(generation) +
                        " takes over: " + message.value("cause", "a change of members"));
    }
    dropped = std::move(next_);
    next_generation_ = 0;
    offered_ = false;
  }
  changed_.notify_all();
}

std::unique_ptr<comm::Communicator> Session::connected(const comm::GroupOptions& options) {
  auto group = comm::connect(*listener_, options);
  const comm::nccl::Choice choice = comm::nccl::choose(options.endpoints, options.names);
  if (choice.nccl) return nccl_.value().connect(std::move(group), options.abort, options.deadline);
  if (options.rank == 0 && !choice.reason.empty() && choice.reason != told_no_nccl_) {
    told_no_nccl_ = choice.reason;
    log_warning("replicas exchange what is on their GPUs through host memory, which is slower: {}",
                choice.reason);
  }
  return group;
}

// Keeps connecting to the newest generation announced by a message.
void Session::connect_loop() {
  pthread_setname_np(pthread_self(), "connector");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return quit_ || target_; });
    if (quit_) return;
    const json target = std::move(*target_);
    target_.reset();
    const auto generation = target.at("generation").get<uint64_t>();
    comm::GroupOptions options;
    options.generation = generation;
    options.rank = -1;
    for (const auto& entry : target.at("members")) {
      if (entry.at("member").get<uint64_t>() == member_) {
        options.rank = static_cast<int>(options.endpoints.size());
      }
      options.endpoints.push_back(entry.at("endpoint"));
      options.names.push_back(fmt::format("replica {}", entry.at("member").get<uint64_t>()));
    }
    options.deadline = Monotonic::now() + std::chrono::seconds(kConnectTimeoutSeconds);
    options.links = links_;
    std::unique_ptr<comm::Communicator> group;
    std::string problem;
    std::optional<json> unreachable;
    if (options.rank >= 0 && options.endpoints.size() > 1) {
      connect_abort_ = std::make_unique<comm::AbortSignal>();
      options.abort = connect_abort_.get();
      options.device = device_.get();
      lock.unlock();
      try {
        group = connected(options);
      } catch (const comm::Unreachable& error) {
        problem = error.what();
        unreachable = target.at("members").at(static_cast<size_t>(error.rank)).at("member");
      } catch (const std::exception& error) {
        problem = error.what();
      }
      lock.lock();
      connect_abort_.reset();
    }
    changed_.wait(lock, [this] { return quit_ || !offered_; });
    if (generation != newest_) {  // overtaken
      lock.unlock();
      group.reset();
      lock.lock();
      continue;
    }
    if (!problem.empty()) {
      json lost = {
          {"type", "lost"}, {"generation", generation}, {"reason", problem}, {"connecting", true}};
      if (unreachable) lost["unreachable"] = *unreachable;
      lock.unlock();
      send(lost);
      lock.lock();
      continue;
    }
    std::swap(next_, group);
    next_generation_ = generation;
    next_immediate_ = target.at("immediate").get<bool>();
    next_member_ = options.rank >= 0;
    next_rank_ = std::max(options.rank, 0);
    next_replicas_ = static_cast<int>(options.endpoints.size());
    next_threads_ = target.value("threads", 0);
    next_accelerators_.clear();
    next_folders_.clear();
    for (const auto& entry : target.at("members")) {
      next_accelerators_.push_back(entry.value("accelerator", ""));
      next_folders_.push_back(entry.value("folder", 0));
    }
    next_atomic_limit_ = target.value("atomic_limit", int64_t{0});
    json connected_message = {{"type", "connected"}, {"generation", generation}};
    if (next_) connected_message["hosts"] = hosts_in_use(*next_);
    changed_.notify_all();
    lock.unlock();
    group.reset();  // an older one that nobody has taken
    if (options.rank >= 0) send(connected_message);
    lock.lock();
  }
}

// Makes the connected generation current.
void Session::take_next(std::unique_lock<std::mutex>& lock) {
  auto old = std::move(current_);
  current_ = std::move(next_);
  abortable_ = current_.get();
  generation_ = next_generation_;
  rank_ = next_rank_;
  replicas_ = next_replicas_;
  threads_ = next_threads_;
  accelerators_ = std::move(next_accelerators_);
  folders_ = std::move(next_folders_);
  atomic_limit_ = next_atomic_limit_;
  next_generation_ = 0;
  lock.unlock();
  changed_.notify_all();
  if (has_launcher()) {
    set_present_run({settings_.value("name", ""), settings_.value("checkpoint_dir", ""), rank_,
                     replicas_, nodes()});
  }
}

bool Session::await_next() {
  if (!channel_) return true;
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [this] { return next_generation_ > generation_ && (next_immediate_ || !trained_); });
  if (!next_member_) return false;
  take_next(lock);
  return true;
}

uint64_t Session::offer() {
  if (!channel_) return 0;
  std::lock_guard lock(mutex_);
  offered_ = next_generation_ > generation_;
  return offered_ ? next_generation_ : 0;
}

bool Session::answer(bool agreed) {
  if (!channel_) return true;
  std::unique_lock lock(mutex_);
  const bool still = offered_;  // an immediate generation may have overtaken the offer
  offered_ = false;
  changed_.notify_all();
  if (!agreed || !still) return true;
  if (!next_member_) return false;
  take_next(lock);
  return true;
}

void Session::report_switched(int64_t step) {
  {
    std::lock_guard lock(mutex_);
    trained_ = true;
  }
  send({{"type", "switched"}, {"generation", generation_}, {"step", step}});
}

void Session::report_passes(int64_t samples) {
  if (samples == told_samples_) return;
  told_samples_ = samples;
  send({{"type", "passes"}, {"samples", samples}});
}

void Session::report_lost(const std::string& reason) {
  send({{"type", "lost"}, {"generation", generation_}, {"reason", reason}});
}

}  // namespace adaptdl
