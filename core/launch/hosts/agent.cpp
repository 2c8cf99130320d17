#include "core/launch/hosts/agent.h"

#include <algorithm>
#include <map>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/signals.h"
#include "core/formats/json.h"
#include "core/job/checkpoint_summary.h"
#include "core/launch/command/host_command.h"
#include "core/launch/hosts/candidacy.h"
#include "core/launch/hosts/host_replicas.h"
#include "core/launch/hosts/host_workers.h"
#include "core/launch/hosts/roster_file.h"
#include "core/launch/run/run_folder.h"
#include "core/net/socket.h"
#include "core/net/tcp.h"

namespace adaptdl::launch {

namespace {

constexpr std::chrono::seconds kPause{1};  // between attempts to find the launcher
constexpr std::chrono::seconds kConnectPatience{5};
constexpr std::chrono::seconds kTalkAfter{2};  // the launcher may just be starting
constexpr std::chrono::seconds kTalkPause{30};
// Without a launcher, whose replicas wait: for a connection to a host that may be gone, and for the
// answer of one that may be starting a launcher.
constexpr std::chrono::milliseconds kShortPause{200}, kShortConnect{300};
constexpr std::chrono::milliseconds kLongAnswer{2000}, kShortAnswer{500};
constexpr std::chrono::seconds kLauncherEndPatience{10};
constexpr Seconds kToNotice{3};  // a launcher that has been silent for too long
// Of a host that ends where it cannot go on: with replicas that wait; without, while the others may
// be about to agree on a launcher; and where nobody can lead.
constexpr Seconds kOrphansPatience{120}, kLostPatience{20}, kHopelessPatience{3};

// The launcher does not take this host; `final`: nor will it ever.
struct Refused : Error {
  Refused(const std::string& reason, bool is_final) : Error(reason), final(is_final) {}
  bool final;
};

std::unique_ptr<HostReplicas> replicas_of(const AgentOptions& options, const Talk& talk,
                                          HostReplicas::Post post) {
  if (options.run.hosts->slots == 0) return std::make_unique<NoReplicas>();
  if (options.command) {
    return std::make_unique<HostCommand>(*options.command, talk, std::move(post));
  }
  return std::make_unique<HostWorkers>(options.run, talk, std::move(post));
}

class Agent {
 public:
  Agent(const AgentOptions& options, const Talk& talk)
      : options_(options),
        talk_(talk),
        signals_(caught_signals()),
        key_(agent_key(options.run.hosts->secret, options.run.name)),
        replicas_(
            replicas_of(options, talk, [this](const Json& message) { return post(message); })),
        candidacy_(options.listener, {listening_address(options.run.reach), options.leads_at, ""},
                   options.run.hosts->silence + kToNotice, options.lead) {}

  int run() {
    for (;;) {
      if (seeks() && Monotonic::now() >= retry_at_) {
        if (orphaned_) {
          find_successor();
        } else {
          find_launcher();
        }
      }
      take_signals();
      take_leash();
      candidacy_.look();
      if (candidacy_.knocked(place())) beat_at_ = TimePoint::min();
      take_link();  // also before the first wait: messages may follow the welcome at once
      replicas_->take(std::exchange(child_signal_, false));
      beat();
      if (replicas_->empty() && exit_) {
        // It tells how the run ended.
        candidacy_.wait_for_launcher(Monotonic::now() + kLauncherEndPatience);
        return *exit_;
      }
      if (replicas_->empty() && leaving_ != 0 && !still_leads()) return 128 + leaving_;
      wait();
    }
  }

 private:
  // Whether this host is to look for a launcher: for its replicas, or for some to start.
  bool seeks() const {
    return !link_ && !exit_ && (replicas_->empty() ? leaving_ == 0 : orphaned_);
  }

  void find_launcher() {
    try {
      const LauncherAddress address = options_.find_launcher();
      Fd socket = connect_tcp(address.host, address.port, Monotonic::now() + kConnectPatience);
      connect(address, std::move(socket), Monotonic::now() + kConnectPatience);
      talk_(fmt::format("{} {} port {} {}", kJoinedRun, address.host, address.port,
                        witness() ? "as a witness" : with_slots()));
    } catch (const Refused& refused) {
      unreached_since_.reset();
      if (!refused.final) return retry("cannot join the run yet", refused);
      talk_(fmt::format("the launcher refuses this host: {}", refused.what()));
      exit_ = static_cast<int>(ExitCode::error);
    } catch (const RunEnded& ended) {
      end(ended.exit);
    } catch (const NobodyLeads&) {
      throw;
    } catch (const Error& error) {
      retry("cannot reach the launcher yet", error);
      give_up_in_time(error);
    }
  }

  void end(int exit) {
    exit_ = exit;
    if (exit > 0 && exit < 128) talk_(fmt::format("{} with exit code {}", kRunHasFailed, exit));
  }

  bool witness() const { return options_.run.hosts->slots == 0; }

  std::string with_slots() const {
    const int slots = options_.run.hosts->slots;
    return fmt::format("with {} slot{}", slots, slots == 1 ? "" : "s");
  }

  void give_up_in_time(const Error& error) {
    if (!unreached_since_) unreached_since_ = Monotonic::now();
    const bool ends = options_.lost_exit && was_in_run_;
    const auto patience =
        ends ? std::optional(orphaned_ ? kOrphansPatience : lost_patience_) : options_.patience;
    if (!patience || seconds_since(*unreached_since_) < patience->count()) return;
    talk_(fmt::format("gives up: {}", error.what()));
    exit_ = ends ? *options_.lost_exit : static_cast<int>(ExitCode::error);
    kill_all();
  }

  // The launcher is lost, and the replicas here wait for another one: the first host of the roster
  // that lives leads. One that listens but does not answer yet is about to, or has not lost the
  // launcher; then it is not this one's turn, but one behind it may lead already.
  void find_successor() {
    retry_at_ = Monotonic::now() + kShortPause;
    const std::optional<LauncherAddress> silent = std::exchange(silent_, {});
    const auto asked = [&](const LauncherAddress& address) {
      return !silent || *silent != address;
    };
    bool answers =
        find(elsewhere_) == nullptr && asked(elsewhere_) && follow(elsewhere_, kShortConnect);
    std::optional<LauncherAddress> own;
    for (const Roster::Host& host : roster_.hosts) {
      if (link_ || exit_ || !orphaned_) return;
      const LauncherAddress address{host.address, host.port};
      if (host.id == options_.id) {
        own = address;
        if (answers) continue;
        answers = lead(address);
        if (answers) break;
        continue;
      }
      const auto patience = answers ? kShortAnswer : kLongAnswer;
      answers =
          (host.port != 0 && asked(address) && follow(address, kShortConnect, patience)) || answers;
    }
    if (own && !link_ && !exit_ && orphaned_ && !answers) lead(*own, true);
    if (!link_) look_elsewhere();
  }

  // Of the roster; null: none is there.
  const Roster::Host* find(const LauncherAddress& at) const {
    const auto found = std::ranges::find_if(roster_.hosts, [&](const Roster::Host& host) {
      return host.address == at.host && host.port == at.port;
    });
    return found == roster_.hosts.end() ? nullptr : &*found;
  }

  Candidacy::Place place() const {
    if (roster_.hosts.empty()) return Candidacy::Place::in_no_run;
    return link_ ? Candidacy::Place::has_launcher : Candidacy::Place::looks_for_one;
  }

  // By a launcher at this host's own address; whether there is one, perhaps soon.
  bool lead(const LauncherAddress& own, bool nobody_else = false) {
    try {
      if (!candidacy_.lead(roster_, nobody_else)) return false;
    } catch (const Error& error) {
      retry("this host cannot lead the run", error);
      return false;
    }
    follow(own, kConnectPatience);
    if (!link_) return true;
    candidacy_.has_led();
    if (leaving_ != 0) stop_launcher();
    return true;
  }

  // The hosts' meeting point may know more, after a while.
  void look_elsewhere() {
    if (!orphaned_ || exit_ || seconds_since(orphaned_at_) < Seconds(kConnectPatience).count())
      return;
    try {
      follow(options_.find_launcher(), kShortConnect);
    } catch (const RunEnded& ended) {
      end(ended.exit);
      kill_all();
    } catch (const Error& error) {
      retry("nobody leads the run yet", error);
      give_up_in_time(error);
    }
  }

  // Returns whether a launcher is there, or may be soon. One that ends closes the connection.
  bool follow(const LauncherAddress& address, Monotonic::duration patience,
              Monotonic::duration answer_patience = kLongAnswer) {
    Fd socket;
    try {
      socket = connect_tcp(address.host, address.port, Monotonic::now() + patience);
    } catch (const Error&) {
      return false;
    }
    const TimePoint deadline = Monotonic::now() + answer_patience;
    try {
      connect(address, std::move(socket), deadline);
      talk_(fmt::format("follows the launcher at {} port {}", address.host, address.port));
    } catch (const Error&) {
      return Monotonic::now() >= deadline;
    }
    return true;
  }

  void connect(const LauncherAddress& address, Fd socket, TimePoint deadline) {
    Stream stream(std::move(socket), key_, TlsSide::client);
    watch_peer(stream.fd(), options_.run.hosts->silence);
    auto link = std::make_unique<Channel>(greeted(std::move(stream), address, deadline));
    candidacy_.open();
    join(*link, deadline);
    link_ = std::move(link);
    leader_ = address;
    if (const auto* host = find(address); host == nullptr || host->id != options_.id) {
      elsewhere_ = address;
    }
    was_in_run_ = true;
    heard_at_ = Monotonic::now();
    told_at_.reset();
    failing_since_.reset();
    unreached_since_.reset();
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
      const bool other_key =
          !stream.problem().empty();  // else it is perhaps a host that waits, too
      fail("what listens at {} port {} is not this run's launcher: {}{}", address.host,
           address.port, error.what(), other_key ? options_.advice : "");
    }
    return stream;
  }

  void join(Channel& link, TimePoint deadline) {
    const HostsOptions& hosts = *options_.run.hosts;
    link.send({{"type", "join"},
               {"id", options_.id},
               {"host", options_.host},
               {"slots", hosts.slots},
               {"terms", hosts.terms},
               {"leads_at", candidacy_.port()},
               {"address", options_.run.reach.advertise}});
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
    const auto run_id = json_get<std::string>(*answer, "run_id", "joined");
    if (orphaned_ && run_id != roster_.run_id) {
      abandon("the launcher has begun a new run");
      fail("waiting for the end of the replicas here");
    }
    const auto number = json_find<int64_t>(*answer, "number", "joined");
    if (orphaned_ && !roster_.shared && number && *number < roster_.number) {
      fail("another launcher has led this host since, and its replicas are newer");
    }
    const auto owner = json_get_or<std::string>(*answer, "owner", "joined", "");
    shares_ = !owner.empty() && lock_owner(options_.run.checkpoint_dir) == owner;
    if (!shares_ && options_.check_folder && !witness()) tell_folder();
    Json knows = this->knows();
    if (std::exchange(orphaned_, false)) {
      replicas_->tell_all(link);
      knows["roster"] = to_json(roster_);
      knows["told"] = to_json(told_);
    } else if (const auto left = RosterFile(options_.run.checkpoint_dir).read()) {
      knows["remembered"] = to_json(*left);
    }
    link.post(knows);
  }

  Json knows() const {
    return {{"type", "knows"},
            {"number", roster_.number},
            {"shares", shares_},
            {"holds", witness() ? -1 : newest_checkpoint_step(options_.run.checkpoint_dir)}};
  }

  // The replicas here cannot go on.
  void abandon(const char* why) {
    if (!replicas_->empty()) talk_(fmt::format("{}; ending the replicas here", why));
    orphaned_ = false;
    roster_ = {};
    told_ = {};
    kill_all();
  }

  void tell_folder() {
    if (std::exchange(told_folder_, true)) return;
    const char* advice =
        options_.command
            ? "What a replica saves in it on one host, those of others do not find when they "
              "restart: give all hosts a --checkpoint-dir on a file system that they share"
            : "Two such hosts write each checkpoint, and any of them may save the model: give all "
              "hosts an --output on a file system that they share";
    talk_(fmt::format("this host does not share the launcher's checkpoint folder ({} here). {}",
                      options_.run.checkpoint_dir, advice));
  }

  void wait() {
    std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
    if (leaving_ == 0) waits.push_back({options_.leash, POLLIN, 0});
    TimePoint until = replicas_->deadline();
    if (link_) {
      waits.push_back(link_->wait());
      until = std::min(until, beat_at_);
    } else if (seeks()) {
      until = std::min(until, retry_at_);
    }
    if (leaving_ != 0) until = std::min(until, still_leads() ? leads_until_ : kill_at_);
    candidacy_.add_wait(place(), waits);
    until = std::min(until, candidacy_.deadline());
    replicas_->add_waits(waits);
    poll_until(waits, until);
  }

  void take_signals() {
    for (const int number : signals_.take()) {
      if (number == SIGCHLD) {
        child_signal_ = true;
      } else if (leaving_ != 0) {
        if (is_repeated(number, left_at_)) continue;
        leads_until_ = Monotonic::now();
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
    left_at_ = Monotonic::now();
    kill_at_ = time_after(left_at_, Seconds(options_.run.grace_s));
    leads_until_ = kill_at_;
    if (!replicas_->empty()) talk_("this host was told to stop; its replicas leave the run");
    if (link_) stop_launcher();     // else once it answers: it may not take signals yet
    if (orphaned_) return;          // the next launcher is told
    if (!link_) return kill_all();  // nobody could tell them how
    post({{"type", "leaving"}});
  }

  // If one runs beside this agent, it is to leave the run to another host.
  void stop_launcher() {
    if (options_.run.hosts->hands_over) candidacy_.stop();
  }

  // Whether the launcher beside this agent has not left the run to another host yet, or other hosts
  // that were told to stop still need it.
  bool still_leads() const {
    if (!candidacy_.leads() || Monotonic::now() >= leads_until_) return false;
    return options_.run.hosts->hands_over || (link_ && !may_go_);
  }

  void kill_all() {
    replicas_->kill_all();
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
    } catch (const std::exception& error) {
      talk_(fmt::format("invalid message from the launcher: {}", error.what()));
    }
    link_.reset();
    retry_at_ = Monotonic::now();
    // It beats four times as often, and closes connections where it ends.
    const bool silent = seconds_since(heard_at_) > options_.run.hosts->silence.count() / 2;
    silent_ = silent ? std::optional(leader_) : std::nullopt;
    orphaned_ =
        may_go_on(roster_, options_.id) && (roster_.shared || !options_.run.hosts->folder_decides);
    orphaned_at_ = Monotonic::now();
    if (leaving_ != 0 && !orphaned_) return kill_all();
    if (orphaned_) {
      talk_(fmt::format("lost the connection to the launcher; {} for another one",
                        witness() ? "this witness waits" : "the replicas here wait"));
    } else {
      retry_at_ += kPause;
      const bool hopeless = roster_.number > 0 && !roster_.shared;
      lost_patience_ = hopeless ? kHopelessPatience : kLostPatience;
      abandon("lost the connection to the launcher");
    }
  }

  void on_message(const nlohmann::json& message) {
    heard_at_ = Monotonic::now();
    const auto& type = message.at("type").get_ref<const std::string&>();
    if (type == "end") {
      end(json_get<int>(message, "exit", type));
      RosterFile(options_.run.checkpoint_dir).forget();  // nobody goes on
      return kill_all();
    }
    if (type == "roster") {
      roster_ = roster_from_json(message.at("roster"), "roster");
      if (!shares_ && options_.run.hosts->remember) options_.run.hosts->remember(roster_);
      post(knows());
      if (leaving_ != 0) post({{"type", "leaving"}});  // the last launcher was told
      return;
    }
    if (type == "beat") return;
    if (type == "go") {
      may_go_ = true;
      return;
    }
    if (type == "passed-on") {
      told_ = passed_on_from_json(message.at("told"), "passed-on");
      for (const Json& each : message.at("replicas")) {
        replicas_->passed_on(json_get<MemberId>(each, "member", type),
                             json_get<uint64_t>(each, "events", type));
      }
      return;
    }
    const auto member = json_get<MemberId>(message, "member", type);
    if (type == "start") {
      replicas_->start(member, json_get<int>(message, "slot", type), message.at("invitation"),
                       leader_.host);
    } else if (type == "tell") {
      replicas_->tell(member, message.at("message"));
    } else if (type == "kill") {
      replicas_->kill(member);
    }
  }

  void beat() {
    if (!link_ || Monotonic::now() < beat_at_) return;
    post({{"type", "beat"}});
    beat_at_ = Monotonic::now() + beat_pause(options_.run.hosts->silence);
  }

  // False if there is no launcher.
  bool post(const Json& message) { return link_ && link_->post(message); }

  const AgentOptions& options_;
  const Talk& talk_;
  SignalCatcher signals_;
  const TlsKey key_;
  std::unique_ptr<Channel> link_;
  LauncherAddress leader_, elsewhere_;     // the newest one, and that on another host
  TimePoint heard_at_;                     // when leader_ last said something
  std::optional<LauncherAddress> silent_;  // it was lost so, and is not the first to be asked
  Roster roster_;                          // of the newest launcher
  PassedOn told_;                          // by it
  bool shares_ = false;                    // its checkpoint folder
  bool told_folder_ = false;
  bool was_in_run_ = false;  // a launcher has taken this host
  Seconds lost_patience_ = kLostPatience;
  bool orphaned_ = false;  // the launcher is lost, and the replicas here wait for another one
  TimePoint orphaned_at_;
  const std::unique_ptr<HostReplicas> replicas_;
  Candidacy candidacy_;
  std::optional<TimePoint> failing_since_, told_at_;  // this host is in no run; the user was told
  std::optional<TimePoint> unreached_since_;          // no launcher answers
  TimePoint retry_at_, beat_at_;
  TimePoint kill_at_ = TimePoint::max();
  TimePoint leads_until_ = TimePoint::min();  // who is leaving, should it lead others
  int leaving_ = 0;                           // the signal's number
  TimePoint left_at_;                         // when it came
  bool may_go_ = false;                       // its launcher leads nobody who leaves, too
  std::optional<int> exit_;
  bool child_signal_ = false;
};

}  // namespace

int run_agent(const AgentOptions& options, const Talk& talk) {
  return Agent(options, talk).run();
}

}  // namespace adaptdl::launch
