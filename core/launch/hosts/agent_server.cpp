#include "core/launch/hosts/agent_server.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <signal.h>
#include <sys/socket.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/system.h"
#include "core/formats/json.h"
#include "core/launch/run/run_folder.h"
#include "core/net/socket.h"
#include "core/net/tcp.h"

namespace adaptdl::launch {

namespace {

constexpr std::chrono::seconds kJoinPatience{5};  // from the connection to the proof
constexpr std::chrono::seconds kAgentsPatience{2};
constexpr int kMostStrangers = 64;          // connections without a proof, at once
constexpr uint32_t kStrangersFrame = 4096;  // bytes
constexpr size_t kLauncherBytes = 8;        // Roster::launcher
constexpr size_t kMostText = 100;           // bytes of what an agent says that is shown

nlohmann::json frame(const char* type, MemberId member) {
  return {{"type", type}, {"member", member}};
}

void flush_all(Channel& channel, TimePoint deadline) {
  while (channel.wants_write() && Monotonic::now() < deadline) {
    wait_ready(channel.fd(), POLLOUT, deadline);
    if (!channel.flush()) break;
  }
}

void read_to_end(Channel& channel, TimePoint deadline) {
  try {
    while (channel.drain([](const nlohmann::json&) {}) && Monotonic::now() < deadline) {
      wait_ready(channel.fd(), POLLIN, deadline);
    }
  } catch (const Error&) {  // what it says does not matter any more
  }
}

}  // namespace

// A replica on an agent's host.
struct AgentServer::Worker {
  std::unique_ptr<Channel> channel;  // connected to the launcher's channel; none: closed
  bool closing = false;              // close it once the launcher has read everything
  pid_t pid = 0;
  std::optional<ExitStatus> status;
  bool memory_ran_out = false;
  std::optional<TimePoint> end_by;  // deadline for its end, once it was told to end
  std::deque<bool> stops;
  uint64_t events = 0, passed_on = 0;  // that it has said; of these, those its host need not keep
  std::string lost;
};

struct AgentServer::Agent {
  Agent(Stream stream, TimePoint join_by, std::string from)
      : channel(std::move(stream), kStrangersFrame), deadline(join_by), address(std::move(from)) {}

  bool here() const { return proven && !gone && !leaving; }  // it belongs to the run
  bool in_roster() const { return here() && heard; }
  bool witness() const { return proven && slots.empty(); }
  bool has_replicas() const {  // that have not ended, as far as is known
    return std::ranges::any_of(workers, [](const auto& entry) { return !entry.second->status; });
  }

  Channel channel;
  const TimePoint deadline;
  std::string address;  // Roster::Host::address
  bool proven = false, leaving = false, may_go = false, gone = false;
  std::string id, host;
  Slots slots;
  uint16_t leads_at = 0;  // Roster::Host::port
  bool shares = false;    // the checkpoint folder
  int64_t knows = 0;      // number of the newest roster that it has
  int64_t holds = -1;     // step of the newest checkpoint there
  bool heard = false;     // what it knows
  bool has_told = false;  // and what it kept since the last launcher
  std::map<MemberId, std::shared_ptr<Worker>> workers;
};

class AgentServer::Process : public ReplicaProcess {
 public:
  Process(MemberId id, std::shared_ptr<Agent> agent, std::shared_ptr<Worker> worker,
          Seconds kill_patience)
      : id_(id),
        agent_(std::move(agent)),
        worker_(std::move(worker)),
        kill_patience_(std::chrono::duration_cast<Monotonic::duration>(kill_patience)) {}
  ~Process() override {
    if (!worker_->status) tell_kill();
  }

  pid_t pid() const override { return worker_->pid; }
  void kill() override { tell_kill(); }
  // Messages that it sent before must be read first.
  std::optional<ExitStatus> poll() override {
    return worker_->channel ? std::nullopt : worker_->status;
  }
  std::optional<bool> stop_change() override {
    if (worker_->stops.empty()) return std::nullopt;
    const bool stopped = worker_->stops.front();
    worker_->stops.pop_front();
    return stopped;
  }
  int descriptor() const override { return -1; }
  bool memory_ran_out() const override { return worker_->memory_ran_out; }
  std::string lost() const override { return worker_->lost; }

 private:
  void tell_kill() {
    if (agent_->gone) return;
    agent_->channel.post(frame("kill", id_));
    if (!worker_->end_by) worker_->end_by = Monotonic::now() + kill_patience_;
  }

  const MemberId id_;
  const std::shared_ptr<Agent> agent_;
  const std::shared_ptr<Worker> worker_;
  const Monotonic::duration kill_patience_;
};

AgentServer::AgentServer(HostsOptions options, const std::string& run, Roster before, Events events)
    : options_(std::move(options)),
      key_(agent_key(options_.secret, run)),
      events_(std::move(events)),
      listener_(options_.listener ? std::move(*options_.listener) : listen_tcp(options_.port)),
      next_slot_(options_.slots),
      before_(std::move(before)),
      leads_(!events_.kept),
      rosters_told_(events_.kept) {
  roster_.number = before_.number;
  roster_.run_id = before_.run_id;
  roster_.launcher = to_hex(random_bytes(kLauncherBytes));
}

AgentServer::~AgentServer() = default;

uint16_t AgentServer::port() const {
  return port_of(listener_.get());
}

void AgentServer::add_waits(std::vector<pollfd>& waits) const {
  waits.push_back({listener_.get(), POLLIN, 0});
  for (const auto& agent : agents_) {
    waits.push_back(agent->channel.wait());
    for (const auto& [id, worker] : agent->workers) {
      if (worker->channel) waits.push_back(worker->channel->wait());
    }
  }
}

TimePoint AgentServer::deadline() const {
  TimePoint first = agents_.empty() ? TimePoint::max() : beat_at_;
  for (const auto& agent : agents_) {
    if (!agent->proven) first = std::min(first, agent->deadline);
    for (const auto& [id, worker] : agent->workers) {
      if (worker->end_by && !worker->status) first = std::min(first, *worker->end_by);
    }
  }
  return first;
}

void AgentServer::serve() {
  accept_all();
  const std::vector<std::shared_ptr<Agent>> all = agents_;  // a joining agent may drop others
  for (const auto& agent : all) {
    if (agent->gone) continue;
    const std::string why = serve(agent);
    if (!why.empty()) drop(*agent, why);
  }
  std::erase_if(agents_, [](const auto& agent) { return agent->gone; });
  if (roster_changed_ && leads_ && may_train_soon()) tell_roster();  // else those lost may go on
  let_go();
  const TimePoint now = Monotonic::now();
  if (now < beat_at_) return;
  beat_at_ = now + beat_pause(options_.silence);
  for (const auto& agent : agents_) {
    if (agent->here()) agent->channel.post({{"type", "beat"}});
  }
}

void AgentServer::let_go() {
  const auto stays = [](const auto& agent) { return agent->leaving && agent->has_replicas(); };
  if (std::ranges::any_of(agents_, stays)) return;
  for (const auto& agent : agents_) {
    if (!agent->leaving || std::exchange(agent->may_go, true)) continue;
    agent->channel.post({{"type", "go"}});
  }
}

void AgentServer::accept_all() {
  for (;;) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Fd socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    // An agent proves itself at once, so whoever has been silent for longest has to go.
    const auto unproven = [](const auto& agent) { return !agent->proven && !agent->gone; };
    if (std::count_if(agents_.begin(), agents_.end(), unproven) >= kMostStrangers) {
      drop(**std::find_if(agents_.begin(), agents_.end(), unproven), "was silent for too long");
    }
    watch_peer(socket.get(), options_.silence);
    agents_.push_back(std::make_shared<Agent>(Stream(std::move(socket), key_, TlsSide::server),
                                              Monotonic::now() + kJoinPatience,
                                              tcp_address(from).host));
  }
}

std::string AgentServer::serve(const std::shared_ptr<Agent>& from) {
  Agent& agent = *from;
  if (!agent.proven && Monotonic::now() >= agent.deadline) return "did not authenticate in time";
  try {
    if (!agent.channel.flush()) return "is gone";
    if (!agent.channel.drain([&](const nlohmann::json& message) { on_message(from, message); })) {
      return "is gone";
    }
    for (auto entry = agent.workers.begin(); entry != agent.workers.end();) {
      Worker& worker = *entry->second;
      // Everything it has sent by now is read, so a pause of the launcher itself is not its fault.
      if (worker.end_by && !worker.status && Monotonic::now() >= *worker.end_by) {
        return fmt::format("did not end replica {} in time", entry->first);
      }
      if (worker.channel) {
        const bool heard =
            worker.channel->flush() && worker.channel->drain([&](nlohmann::json message) {
              nlohmann::json told = frame("tell", entry->first);
              told["message"] = std::move(message);
              agent.channel.post(told);
            });
        if (!heard || (worker.closing && !worker.channel->wants_write())) worker.channel.reset();
      }
      entry = !worker.channel && worker.status ? agent.workers.erase(entry) : std::next(entry);
    }
  } catch (const std::exception& error) {
    return std::string("sent an invalid message: ") + error.what();
  }
  return "";
}

void AgentServer::on_message(const std::shared_ptr<Agent>& from, const nlohmann::json& message) {
  Agent& agent = *from;
  const auto& type = message.at("type").get_ref<const std::string&>();
  if (!agent.proven) {
    if (type != "join") fail("message {} before the agent has joined", type);
    return on_join(agent, message);
  }
  if (type == "leaving") {
    if (!std::exchange(agent.leaving, true)) {
      roster_changed_ = true;
      quorum_.left(agent.id);
      tell_left(agent, "was told to stop");
    }
    return;
  }
  if (type == "keeps") return on_keeps(from, message);
  if (type == "knows") return on_knows(agent, message);
  const auto member = json_find<MemberId>(message, "member", type);
  const auto found = member ? agent.workers.find(*member) : agent.workers.end();
  if (found == agent.workers.end()) return;
  Worker& worker = *found->second;
  if (type == "say") {
    if (!worker.channel) return;
    worker.channel->post(message.at("message"));
    if (message["message"].value("type", "") == "event") ++worker.events;
  } else if (type == "closed") {
    worker.closing = true;
  } else if (type == "started") {
    worker.pid = json_get<pid_t>(message, "pid", type);
  } else if (type == "stopped") {
    worker.stops.push_back(message.at("stopped").get<bool>());
  } else if (type == "ended") {
    worker.closing = true;
    worker.lost = message.value("reason", "");
    worker.status =
        ExitStatus{message.value("signaled", false), json_get_or<int>(message, "value", type, 1)};
    worker.memory_ran_out = message.value("memory", false);
  }
}

// In terms that differ, what the other side has is shown in part only.
// A witness has no program.
std::string AgentServer::refusal(const nlohmann::json& join, bool witness) const {
  for (const auto& [name, ours] : options_.terms) {
    const auto& all = join.at("terms");
    const auto found = all.find(name);
    if (witness && found == all.end()) continue;
    const std::string theirs =
        found != all.end() && found->is_string() ? found->get<std::string>() : "";
    if (theirs == ours) continue;
    const auto show = [](const std::string& text) {
      return text.empty() ? "none" : text.substr(0, kMostText);
    };
    return fmt::format("its {} is {}, that of the launcher's host {}; all hosts need the same",
                       name, show(theirs), show(ours));
  }
  return "";
}

void AgentServer::on_join(Agent& agent, const nlohmann::json& message) {
  auto id = json_get<std::string>(message, "id", "join");
  auto host = json_get<std::string>(message, "host", "join");
  const auto slots = json_get<int>(message, "slots", "join");
  if (slots < 0 || slots > kMostSlotsOfHost) fail("invalid number of slots {}", slots);
  const bool witness = slots == 0;
  for (const auto& other : agents_) {
    // It has reconnected before its old connection was known to be dead.
    if (other->proven && other->id == id) drop(*other, "connected again");
  }
  const auto refuse = [&](const std::string& reason, bool final) {
    agent.channel.post({{"type", "refused"}, {"reason", reason}, {"final", final}});
  };
  if (const std::string reason = refusal(message, witness); !reason.empty()) {
    return refuse(reason, true);
  }
  if (!witness && hosts() >= options_.most) {
    return refuse(fmt::format("the run has {} hosts already, as many as it takes", hosts()), false);
  }
  agent.proven = true;
  agent.id = std::move(id);
  quorum_.joined(agent.id);
  agent.host = std::move(host);
  for (int i = 0; i < slots; ++i) agent.slots.push_back(next_slot_++);
  agent.leads_at = witness ? uint16_t{0} : json_get_or<uint16_t>(message, "leads_at", "join", 0);
  if (const auto told = message.value("address", ""); !told.empty()) agent.address = told;
  agent.channel.set_longest(kMaxFrame);
  Json joined = {{"type", "joined"},
                 {"protocol", kAgentProtocol},
                 {"owner", lock_owner()},
                 {"run_id", roster_.run_id}};
  if (leads_) joined["number"] = roster_.number;
  agent.channel.post(joined);
  if (!witness) return events_.joined(agent.slots, agent.host);
  if (events_.witness) events_.witness(agent.host, "has joined as a witness");
}

// Once a launcher leads, it has made up its mind without what a late host has kept.
void AgentServer::on_keeps(const std::shared_ptr<Agent>& agent, const nlohmann::json& message) {
  const auto id = json_get<MemberId>(message, "member", "keeps");
  const auto slot = json_get<size_t>(message, "slot", "keeps");
  if (slot >= agent->slots.size()) fail("it has no slot {}", slot);
  if (leads_ || agent->workers.contains(id)) {
    agent->channel.post(frame("kill", id));
    return;
  }
  auto replica = replica_on(agent, id, agent->slots[slot]);
  agent->workers[id]->pid = json_get<pid_t>(message, "pid", "keeps");
  events_.kept(std::move(replica), message.at("generations"));
}

void AgentServer::on_knows(Agent& agent, const nlohmann::json& message) {
  const bool lacks = leads_ && !may_train_soon();
  if (!std::exchange(agent.heard, true)) roster_changed_ = true;
  agent.shares = json_get<bool>(message, "shares", "knows");
  agent.holds = json_get_or<int64_t>(message, "holds", "knows", -1);
  agent.knows = json_get<int64_t>(message, "number", "knows");
  if (!leads_ && message.contains("roster")) {
    agent.has_told = true;
    Roster theirs = roster_from_json(message["roster"], "knows");
    if (theirs.number > before_.number) before_ = std::move(theirs);
    told_ = std::max(told_, passed_on_from_json(message.at("told"), "knows"));
    roster_.number = std::max(roster_.number, before_.number);
  }
  if (message.contains("remembered")) {
    Roster theirs = roster_from_json(message["remembered"], "knows");
    if (lacks && is_newer(theirs)) {
      overtaken_ = true;
      theirs.led_here = false;
      if (options_.remember) options_.remember(theirs);
    } else if (!leads_ && theirs.run_id == before_.run_id &&
               theirs.announced.generation > remembered_.announced.generation) {
      roster_.number = std::max(roster_.number, theirs.number);
      remembered_ = std::move(theirs);
    }
  }
  if (all_share() != roster_.shared) roster_changed_ = true;
  const bool all_know = std::ranges::all_of(agents_, [this](const auto& each) {
    return !each->in_roster() || each->knows == roster_.number;
  });
  if (all_know && may_train()) {
    quorum_.settle(roster_, options_.folder_decides);
    if (quorum_.guards()) remember();
  }
}

void AgentServer::tell_roster() {
  roster_changed_ = false;
  ++roster_.number;
  roster_.hosts = here();
  roster_.size = members();
  roster_.shared = all_share();
  if (!roster_.any_may_lead() && !rosters_told_) {  // nobody will ask
    remember();
    quorum_.settle(roster_, options_.folder_decides);
    return;
  }
  rosters_told_ = true;
  quorum_.tell(roster_, options_.folder_decides);
  remember();
  for (const auto& agent : agents_) {
    if (agent->in_roster()) agent->channel.post({{"type", "roster"}, {"roster", to_json(roster_)}});
  }
}

void AgentServer::remember() const {
  if (!options_.remember || roster_.number == 0) return;
  Roster newest = quorum_.to_remember(roster_);
  newest.announced = roster_.announced;
  newest.led_here = true;
  options_.remember(newest);
}

// Of another launcher, which has led since lost hosts had the oldest roster by which they go on.
bool AgentServer::is_newer(const Roster& theirs) const {
  const Roster& last = quorum_.oldest();
  const std::string& ours = comes_again() ? last.launcher : roster_.launcher;
  return !theirs.shared && theirs.run_id == last.run_id && theirs.launcher != ours &&
         theirs.number > last.number;
}

void AgentServer::lead(Roster::Announced announced) {
  leads_ = true;
  quorum_.succeed(before_, options_.folder_decides);
  roster_.announced = std::move(announced);
  if (roster_changed_) tell_roster();
}

void AgentServer::announced(Roster::Announced announced) {
  roster_.announced = std::move(announced);
  if (roster_changed_ && leads_ && may_train_soon()) return tell_roster();
  remember();
}

void AgentServer::drop(Agent& agent, const std::string& why) {
  if (std::exchange(agent.gone, true)) return;
  ::shutdown(agent.channel.fd(), SHUT_RDWR);  // replicas may keep the object alive for a while
  for (const auto& [id, worker] : agent.workers) {
    if (!worker->status) {
      worker->status = ExitStatus{true, SIGKILL};
      worker->lost = fmt::format("its host {} {}", agent.host, why);
    }
    worker->channel.reset();
  }
  agent.workers.clear();
  if (!agent.proven || agent.leaving) return;
  roster_changed_ = true;
  tell_left(agent, why);
}

void AgentServer::tell_left(const Agent& agent, const std::string& why) const {
  if (!agent.witness()) return events_.left(agent.slots, agent.host, why);
  if (events_.witness) events_.witness(agent.host, why);
}

std::unique_ptr<Replica> AgentServer::replica_on(const std::shared_ptr<Agent>& agent, MemberId id,
                                                 int slot) {
  auto [ours, theirs] = socket_pair();
  const auto worker = std::make_shared<Worker>();
  worker->channel = std::make_unique<Channel>(std::move(theirs));
  agent->workers[id] = worker;
  auto replica = std::make_unique<Replica>(
      Replica{id, std::make_unique<Process>(id, agent, worker, options_.kill_patience),
              Channel(std::move(ours))});
  replica->slots = {slot};
  return replica;
}

std::unique_ptr<Replica> AgentServer::start(MemberId id, int slot, nlohmann::json invitation) {
  const auto agent = agent_of(slot);
  if (!agent || !agent->here()) fail("the host of slot {} has disconnected", slot);
  nlohmann::json message = frame("start", id);
  message["slot"] = slot - agent->slots.front();
  message["invitation"] = std::move(invitation);
  agent->channel.post(message);
  return replica_on(agent, id, slot);
}

std::shared_ptr<AgentServer::Agent> AgentServer::agent_of(int slot) const {
  const auto found = std::ranges::find_if(
      agents_, [slot](const auto& agent) { return std::ranges::count(agent->slots, slot) != 0; });
  return found == agents_.end() ? nullptr : *found;
}

std::string AgentServer::host_of(int slot) const {
  const auto agent = agent_of(slot);
  return agent == nullptr ? host_name() : agent->host;
}

bool AgentServer::same_host(int slot, int other) const {
  return agent_of(slot) == agent_of(other);
}

int AgentServer::host_number_of(int slot) const {
  const auto agent = agent_of(slot);
  return agent == nullptr ? 0 : 1 + agent->slots.front();
}

int AgentServer::folder_of(int slot) const {
  const auto agent = agent_of(slot);
  return agent == nullptr || agent->shares ? 0 : 1 + agent->slots.front();
}

int AgentServer::hosts() const {
  const auto trains = [](const auto& agent) { return agent->here() && !agent->witness(); };
  return own_host() + static_cast<int>(std::ranges::count_if(agents_, trains));
}

int AgentServer::members() const {
  return own_host() + static_cast<int>(here().size());
}

std::vector<AgentServer::Host> AgentServer::all_hosts() const {
  std::vector<Host> all;
  if (options_.slots > 0) {
    all.push_back({host_name(), Slots(static_cast<size_t>(options_.slots))});
    std::iota(all.back().slots.begin(), all.back().slots.end(), 0);
  }
  for (const auto& agent : agents_) {
    if (agent->here() && !agent->witness()) all.push_back({agent->host, agent->slots});
  }
  return all;
}

Quorum::Hosts AgentServer::here() const {
  Quorum::Hosts all;
  for (const auto& agent : agents_) {
    if (agent->in_roster()) all.push_back({agent->id, agent->address, agent->leads_at});
  }
  return all;
}

// A host that trains with this one's replicas follows this launcher. A witness, and a host that has
// not trained with them yet, may have lost the connection, unheard, and follow another one; once it
// has a roster without the lost hosts, these cannot lead it.
Quorum::Hosts AgentServer::bound() const {
  Quorum::Hosts all;
  for (const auto& agent : agents_) {
    const bool knows = agent->knows == roster_.number && !roster_changed_;
    const bool trains = !agent->witness() && !takes_over() && !comes_again();
    if (agent->in_roster() && (knows || trains)) {
      all.push_back({agent->id, agent->address, agent->leads_at});
    }
  }
  return all;
}

// With witnesses alone it stays open whether lost hosts do.
bool AgentServer::all_share() const {
  const auto apart = [](const auto& each) {
    return each->in_roster() && !each->witness() && !each->shares;
  };
  const bool only_witnesses = hosts() == own_host() && members() > own_host();
  return !only_witnesses && std::ranges::none_of(agents_, apart);
}

void AgentServer::give_up_lost() {
  if (may_train_soon()) return;
  quorum_.give_up_lost();
  roster_changed_ = true;  // also for a process that comes again
}

bool AgentServer::led_elsewhere() {
  const Quorum::Hosts all = lost();
  if (all.empty()) return false;
  const auto address = [](const Roster::Host& host) {
    return LauncherAddress{host.address, host.port};
  };
  const LauncherAddress host = address(all[asked_++ % all.size()]);
  const Answer answer = ask_host(host, key_);
  gone_.note(host, answer);
  const auto is_gone = [&](const Roster::Host& each) { return gone_.gone(address(each)); };
  if (comes_again() && std::ranges::all_of(all, is_gone)) give_up_lost();
  return answer == Answer::leads;
}

bool AgentServer::others_may_lead() const {
  return roster_.shared && std::ranges::any_of(agents_, [](const auto& agent) {
           return agent->here() && agent->leads_at != 0;
         });
}

// Where another process listens in a host's place, it has ended.
int AgentServer::hosts_of(const Roster& roster) const {
  return static_cast<int>(std::ranges::count_if(roster.hosts, [this](const Roster::Host& host) {
    return std::ranges::any_of(agents_, [&](const auto& agent) {
      const bool in_its_place = agent->heard && host.port != 0 && agent->leads_at == host.port &&
                                agent->address == host.address;
      return !agent->gone && (agent->id == host.id ? agent->has_told : in_its_place);
    });
  }));
}

bool AgentServer::anyone_joins() const {
  return std::ranges::any_of(agents_,
                             [](const auto& agent) { return !agent->gone && !agent->heard; });
}

int64_t AgentServer::newest_checkpoint() const {
  int64_t newest = -1;
  for (const auto& agent : agents_) {
    if (agent->here()) newest = std::max(newest, agent->holds);
  }
  return newest;
}

void AgentServer::leave_to_others() {
  for (const auto& agent : agents_) {
    agent->gone = true;
    ::shutdown(agent->channel.fd(), SHUT_RDWR);  // replicas may keep the object alive for a while
  }
}

bool AgentServer::keep_events() const {
  return std::ranges::any_of(agents_, [](const auto& agent) {
    return std::ranges::any_of(agent->workers, [](const auto& entry) {
      return entry.second->passed_on < entry.second->events;
    });
  });
}

void AgentServer::events_passed_on(const PassedOn& told) {
  const bool news = std::exchange(told_, told) != told;
  for (const auto& agent : agents_) {
    nlohmann::json replicas = nlohmann::json::array();
    for (const auto& [id, worker] : agent->workers) {
      const bool more_to_read = worker->channel && worker->channel->wants_write();
      if (more_to_read || worker->passed_on == worker->events) continue;
      worker->passed_on = worker->events;
      replicas.push_back({{"member", id}, {"events", worker->events}});
    }
    if (!agent->proven || (!news && replicas.empty())) continue;
    agent->channel.post(
        {{"type", "passed-on"}, {"told", to_json(told)}, {"replicas", std::move(replicas)}});
  }
}

void AgentServer::hand_over(const PassedOn& told) {
  events_passed_on(told);
  // What an agent has not read is lost if a connection is closed on which it goes on to send: so
  // each one closes its end first.
  const TimePoint deadline = Monotonic::now() + kAgentsPatience;
  for (const auto& agent : agents_) {
    if (!agent->proven || agent->gone) continue;
    flush_all(agent->channel, deadline);
    ::shutdown(agent->channel.fd(), SHUT_WR);
  }
  for (const auto& agent : agents_) {
    if (agent->proven && !agent->gone) read_to_end(agent->channel, deadline);
  }
  leave_to_others();
}

void AgentServer::end(int exit) {
  const TimePoint deadline = Monotonic::now() + kAgentsPatience;
  for (const auto& agent : agents_) {
    if (!agent->proven || agent->gone) continue;
    agent->channel.post({{"type", "end"}, {"exit", exit}});
    flush_all(agent->channel, deadline);
  }
}

}  // namespace adaptdl::launch
