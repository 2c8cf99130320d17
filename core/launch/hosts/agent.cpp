#include "core/launch/hosts/agent.h"

#include <algorithm>
#include <map>
#include <signal.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/signals.h"
#include "core/formats/json.h"
#include "core/launch/io/log_writer.h"
#include "core/launch/oom.h"
#include "core/launch/run/replica_starter.h"
#include "core/launch/run/run_folder.h"
#include "core/net/socket.h"

namespace adaptdl::launch {

namespace {

constexpr std::chrono::seconds kPause{1};  // between attempts to find the launcher
constexpr std::chrono::seconds kConnectPatience{5};
constexpr std::chrono::seconds kTalkAfter{2};  // the launcher may just be starting
constexpr std::chrono::seconds kTalkPause{30};

// The launcher does not take this host; `final`: nor will it ever.
struct Refused : Error {
  Refused(const std::string& reason, bool is_final) : Error(reason), final(is_final) {}
  bool final;
};

class Agent {
 public:
  Agent(const AgentOptions& options, const Talk& talk)
      : options_(options),
        talk_(talk),
        signals_(caught_signals()),
        logs_(options.run.log_dir, options.run.log_bytes_max, talk,
              options.run.echo_logs ? LogWriter::to_standard_error() : LogWriter::Echo()),
        starter_(options.run, logs_),
        oom_(options.run.system_root),
        key_(agent_key(options.run.hosts->secret, options.run.name)) {}

  int run() {
    for (;;) {
      const bool idle = !link_ && workers_.empty() && leaving_ == 0 && !exit_;
      if (idle && Monotonic::now() >= retry_at_) find_launcher();
      take_signals();
      take_leash();
      take_link();  // also before the first wait: messages may follow the welcome at once
      take_workers();
      if (workers_.empty() && exit_) return *exit_;
      if (workers_.empty() && leaving_ != 0) return 128 + leaving_;
      wait();
    }
  }

 private:
  struct Worker {
    LocalProcess process;
    Channel channel;
    bool open = true;
  };

  void find_launcher() {
    try {
      const LauncherAddress address = options_.find_launcher();
      const TimePoint deadline = Monotonic::now() + kConnectPatience;
      Stream stream(connect_tcp(address.host, address.port, deadline), key_, TlsSide::client);
      watch_peer(stream.fd());
      auto link = std::make_unique<Channel>(greeted(std::move(stream), address, deadline));
      join(*link, deadline);
      link_ = std::move(link);
      told_at_.reset();
      failing_since_.reset();
      unreached_since_.reset();
      const int slots = options_.run.hosts->slots;
      talk_(fmt::format("joined the run at {} port {} with {} slot{}", address.host, address.port,
                        slots, slots == 1 ? "" : "s"));
    } catch (const Refused& refused) {
      unreached_since_.reset();
      if (!refused.final) return retry("cannot join the run yet", refused);
      talk_(fmt::format("the launcher refuses this host: {}", refused.what()));
      exit_ = static_cast<int>(ExitCode::error);
    } catch (const RunEnded& ended) {
      exit_ = ended.exit;
    } catch (const Error& error) {
      retry("cannot reach the launcher yet", error);
      if (!unreached_since_) unreached_since_ = Monotonic::now();
      if (options_.patience && seconds_since(*unreached_since_) > options_.patience->count()) {
        talk_(fmt::format("gives up: {}", error.what()));
        exit_ = static_cast<int>(ExitCode::error);
      }
    }
  }

  void retry(const char* what, const Error& error) {
    const TimePoint now = Monotonic::now();
    if (!failing_since_) failing_since_ = now;
    const TimePoint tell_at = told_at_ ? *told_at_ + kTalkPause : *failing_since_ + kTalkAfter;
    if (now >= tell_at) {
      talk_(fmt::format("{}: {}", what, error.what()));
      told_at_ = now;
    }
    retry_at_ = now + kPause;
  }

  Stream greeted(Stream stream, const LauncherAddress& address, TimePoint deadline) const {
    try {
      stream.shake_hands(deadline);
    } catch (const Error& error) {
      fail("what listens at {} port {} is not this run's launcher: {}{}", address.host,
           address.port, error.what(), options_.advice);
    }
    return stream;
  }

  void join(Channel& link, TimePoint deadline) {
    const HostsOptions& hosts = *options_.run.hosts;
    link.send({{"type", "join"},
               {"id", options_.id},
               {"host", options_.host},
               {"slots", hosts.slots},
               {"terms", hosts.terms}});
    const auto answer = link.receive(deadline);
    if (!answer) fail("the launcher did not answer, or closed the connection");
    if ((*answer)["type"] == "refused") {
      throw Refused(json_get<std::string>(*answer, "reason", "refused"),
                    json_get<bool>(*answer, "final", "refused"));
    }
    if ((*answer)["type"] != "joined") {
      fail("unexpected message from the launcher: {}, not joined", answer->dump());
    }
    if (json_get<int>(*answer, "protocol", "joined") > kAgentProtocol) {
      fail("the launcher is a newer adaptdl; use the same version for both");
    }
    if (options_.check_folder) check_folder(json_get<std::string>(*answer, "owner", "joined"));
  }

  void check_folder(const std::string& owner) {
    const std::string& folder = options_.run.checkpoint_dir;
    if (lock_owner(folder) == owner) return;
    talk_(
        fmt::format("this host does not share the launcher's checkpoint folder ({} here). Should "
                    "all replicas die at once, or the model be saved here, that goes wrong: give "
                    "all hosts --checkpoint-dir and --output on a file system that they share",
                    folder));
  }

  void wait() {
    std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
    if (leaving_ == 0) waits.push_back({options_.leash, POLLIN, 0});
    TimePoint until = TimePoint::max();
    if (link_) {
      waits.push_back(link_->wait());
    } else if (workers_.empty() && leaving_ == 0) {
      until = retry_at_;
    }
    if (leaving_ != 0) until = std::min(until, kill_at_);
    for (const auto& [id, worker] : workers_) {
      waits.push_back({worker->process.descriptor(), POLLIN, 0});
      if (worker->open) waits.push_back(worker->channel.wait());
    }
    poll_until(waits, until);
  }

  void take_signals() {
    for (const int number : signals_.take()) {
      if (number == SIGCHLD) {
        child_signal_ = true;
      } else if (leaving_ != 0) {
        kill_all();
      } else {
        leave(number);
      }
    }
    if (leaving_ != 0 && Monotonic::now() >= kill_at_) kill_all();
  }

  void take_leash() {
    if (leaving_ != 0 || options_.leash < 0) return;
    char byte;
    if (wait_ready(options_.leash, POLLIN, Monotonic::now()) &&
        ::read(options_.leash, &byte, 1) <= 0) {
      leave(SIGTERM);
    }
  }

  void leave(int signal) {
    leaving_ = signal;
    kill_at_ = Monotonic::now() +
               std::chrono::duration_cast<Monotonic::duration>(Seconds(options_.run.grace_s));
    if (!workers_.empty()) talk_("this host was told to stop; its replicas leave the run");
    post({{"type", "leaving"}});
  }

  void kill_all() {
    for (auto& [id, worker] : workers_) worker->process.kill();
    kill_at_ = TimePoint::max();
  }

  void take_link() {
    if (!link_) return;
    try {
      const bool open = link_->flush() && link_->drain([this](const nlohmann::json& message) {
        on_message(message);
      });
      if (open) return;
      if (exit_) return link_.reset();
      talk_("lost the connection to the launcher; ending the replicas here");
    } catch (const std::exception& error) {
      talk_(fmt::format("invalid message from the launcher: {}", error.what()));
    }
    link_.reset();
    kill_all();
    retry_at_ = Monotonic::now() + kPause;
  }

  void on_message(const nlohmann::json& message) {
    const auto& type = message.at("type").get_ref<const std::string&>();
    if (type == "end") {
      exit_ = json_get<int>(message, "exit", type);
      return kill_all();
    }
    const auto member = json_get<MemberId>(message, "member", type);
    if (type == "start") {
      return start(member, json_get<int>(message, "slot", type), message.at("invitation"));
    }
    const auto found = workers_.find(member);
    if (found == workers_.end()) return;
    if (type == "tell" && found->second->open) {
      nlohmann::json told = message.at("message");
      // The launcher's number is for its own host's cores.
      if (told.contains("threads"))
        told["threads"] = starter_.threads_for(options_.run.hosts->slots);
      found->second->channel.post(told);
    }
    if (type == "kill") found->second->process.kill();
  }

  void start(MemberId member, int slot, const nlohmann::json& invitation) {
    try {
      if (slot < 0 || slot >= options_.run.hosts->slots) fail("this host has no slot {}", slot);
      auto [child, channel] = starter_.start_invited(member, slot, invitation);
      post({{"type", "started"}, {"member", member}, {"pid", child.pid()}});
      workers_[member] =
          std::make_unique<Worker>(Worker{LocalProcess(std::move(child)), std::move(channel)});
    } catch (const Error& error) {
      talk_(error.what());
      post({{"type", "ended"}, {"member", member}, {"reason", error.what()}});
    }
  }

  void take_workers() {
    for (auto entry = workers_.begin(); entry != workers_.end();) {
      const MemberId member = entry->first;
      Worker& worker = *entry->second;
      while (const auto stopped = child_signal_ ? worker.process.stop_change() : std::nullopt) {
        post({{"type", "stopped"}, {"member", member}, {"stopped", *stopped}});
      }
      const auto status = worker.process.poll();
      if (worker.open) hear(member, worker);
      if (!status) {
        ++entry;
        continue;
      }
      post({{"type", "ended"},
            {"member", member},
            {"signaled", status->signaled},
            {"value", status->value},
            {"memory", oom_.explains(*status)}});
      entry = workers_.erase(entry);
    }
    if (child_signal_ && getpid() == 1) {
      reap_strangers([this](pid_t pid) {
        return std::any_of(workers_.begin(), workers_.end(),
                           [pid](const auto& entry) { return entry.second->process.pid() == pid; });
      });
    }
    child_signal_ = false;
  }

  void hear(MemberId member, Worker& worker) {
    try {
      worker.channel.flush();
      worker.open = worker.channel.drain([&](nlohmann::json message) {
        post({{"type", "say"}, {"member", member}, {"message", std::move(message)}});
      });
      if (!worker.open) post({{"type", "closed"}, {"member", member}});
    } catch (const Error& error) {
      talk_(fmt::format("replica {}: {}; killing it", member, error.what()));
      worker.open = false;
      worker.process.kill();
    }
  }

  void post(const nlohmann::json& message) {
    if (link_) link_->post(message);
  }

  const AgentOptions& options_;
  const Talk& talk_;
  SignalCatcher signals_;
  LogWriter logs_;
  ReplicaStarter starter_;
  OomWatch oom_;  // the launcher cannot see the memory of this host
  const TlsKey key_;
  std::unique_ptr<Channel> link_;
  std::map<MemberId, std::unique_ptr<Worker>> workers_;
  std::optional<TimePoint> failing_since_, told_at_;  // this host is in no run; the user was told
  std::optional<TimePoint> unreached_since_;          // no launcher answers
  TimePoint retry_at_;
  TimePoint kill_at_ = TimePoint::max();
  int leaving_ = 0;  // the signal's number
  std::optional<int> exit_;
  bool child_signal_ = false;
};

}  // namespace

int run_agent(const AgentOptions& options, const Talk& talk) {
  return Agent(options, talk).run();
}

}  // namespace adaptdl::launch
