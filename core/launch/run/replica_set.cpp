#include "core/launch/run/replica_set.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::launch {

namespace {

// A process whose channel has ended should end soon; it is killed after this time.
constexpr std::chrono::seconds kEndPatience{2};
constexpr size_t kMaxSentence = 4000;

}  // namespace

std::string bounded(std::string text) {
  if (text.size() > kMaxSentence) text = text.substr(0, kMaxSentence) + " ...";
  return text;
}

ReplicaSet::ReplicaSet(const RunOptions& options, RunReport& report, AgentServer::Events hosts)
    : options_(options),
      report_(report),
      logs_(
          options.log_dir, options.log_bytes_max,
          [&report](std::string line) { report.talk(std::move(line)); },
          options.echo_logs ? LogWriter::to_standard_error() : LogWriter::Echo()),
      starter_(options, logs_) {
  if (!options.hosts) return;
  Roster before = options.succeeds.value_or(Roster{});
  before.run_id = starter_.run_id();
  agents_ = std::make_unique<AgentServer>(*options.hosts, options.name, std::move(before),
                                          std::move(hosts));
  if (options.comes_again) agents_->come_again(*options.comes_again);
}

Replica* ReplicaSet::find(MemberId id) {
  const auto found = replicas_.find(id);
  return found == replicas_.end() ? nullptr : found->second.get();
}

std::vector<int> ReplicaSet::held_slots() const {
  std::vector<int> held;
  for (const auto& [id, replica] : replicas_) {
    held.insert(held.end(), replica->slots.begin(), replica->slots.end());
  }
  std::sort(held.begin(), held.end());
  return held;
}

size_t ReplicaSet::in_main() const {
  return static_cast<size_t>(std::count_if(
      replicas_.begin(), replicas_.end(), [](const auto& entry) { return entry.second->in_main; }));
}

void ReplicaSet::start(MemberId id, const std::vector<int>& slots, const Joining& joining) {
  const bool here = !agents_ || slots.front() < options_.hosts->slots;
  replicas_[id] = here ? starter_.start(id, slots, joining)
                       : agents_->start(id, slots.front(), starter_.invitation(joining));
  replicas_[id]->atomic_limit = joining.atomic_limit;
}

void ReplicaSet::adopt(std::unique_ptr<Replica> replica) {
  const MemberId id = replica->id;
  used(id);
  replicas_[id] = std::move(replica);
}

void ReplicaSet::announce(const Generation& generation, const std::vector<MemberId>& leavers,
                          int64_t atomic_limit) {
  if (agents_) agents_->announced({generation.number, generation.members});
  nlohmann::json members = nlohmann::json::array();
  for (const MemberId id : generation.members) {
    const Replica& replica = *find(id);
    const bool elsewhere = agents_ && !replica.slots.empty();
    members.push_back({{"member", id},
                       {"endpoint", replica.endpoint},
                       {"accelerator", replica.accelerator},
                       {"folder", elsewhere ? agents_->folder_of(replica.slots.front()) : 0}});
  }
  const nlohmann::json message = {
      {"type", "generation"},
      {"generation", generation.number},
      {"immediate", generation.immediate},
      {"members", std::move(members)},
      {"cause", generation.cause},
      {"atomic_limit", atomic_limit},
      {"threads", starter_.threads_for(static_cast<int>(generation.members.size()))}};
  std::vector<MemberId> told = generation.members;
  told.insert(told.end(), leavers.begin(), leavers.end());
  for (const MemberId id : told) {
    Replica* replica = find(id);
    if (replica == nullptr || !replica->open) continue;
    replica->channel.post(message);
    replica->atomic_limit = atomic_limit;
  }
}

void ReplicaSet::ask_to_stop(Replica& replica, int exit) {
  if (!replica.open) return;
  replica.channel.post({{"type", "stop"}, {"mode", "checkpoint"}, {"exit", exit}});
}

void ReplicaSet::kill(Replica& replica) {
  replica.expected_end = true;
  replica.process->kill();
}

void ReplicaSet::kill_all() {
  for (auto& [id, replica] : replicas_) kill(*replica);
}

std::vector<std::string> ReplicaSet::last_lines(MemberId id) {
  return logs_.final_lines(id);
}

void ReplicaSet::end_hosts(int exit) {
  if (agents_) agents_->end(exit);
}

void ReplicaSet::add_waits(std::vector<pollfd>& waits) const {
  if (agents_) agents_->add_waits(waits);
  for (const auto& [id, replica] : replicas_) {
    waits.push_back({replica->process->descriptor(), POLLIN, 0});
    if (replica->open) waits.push_back(replica->channel.wait());
  }
}

TimePoint ReplicaSet::deadline() const {
  TimePoint until = agents_ ? agents_->deadline() : TimePoint::max();
  for (const auto& [id, replica] : replicas_) {
    if (replica->ended_at && !replica->in_main)
      until = std::min(until, *replica->ended_at + kEndPatience);
  }
  return until;
}

std::string ReplicaSet::host_of(MemberId id) const {
  const auto found = replicas_.find(id);
  const bool known = agents_ && found != replicas_.end() && !found->second->slots.empty();
  return known ? agents_->host_of(found->second->slots.front()) : "";
}

std::optional<int> ReplicaSet::host_number_of(MemberId id) const {
  const auto found = replicas_.find(id);
  if (!agents_ || found == replicas_.end() || found->second->slots.empty()) return std::nullopt;
  return agents_->host_number_of(found->second->slots.front());
}

int ReplicaSet::hosts() const {
  return agents_ ? agents_->hosts() : 1;
}

uint16_t ReplicaSet::hosts_port() const {
  return agents_ ? agents_->port() : 0;
}

void ReplicaSet::serve_hosts() {
  if (agents_) agents_->serve();
}

void ReplicaSet::take_stops(ReplicaListener& listener, bool children) {
  if (!children && !agents_) return;
  for (auto& [id, replica] : replicas_) {
    while (const auto stopped = replica->process->stop_change()) {
      listener.on_stop(*replica, *stopped);
    }
  }
}

bool ReplicaSet::drain(Replica& replica, ReplicaListener& listener) {
  try {
    return replica.channel.drain(
        [&](const nlohmann::json& message) { listener.on_message(replica, message); });
  } catch (const std::exception& error) {
    // Its further messages cannot be trusted.
    report_.talk(fmt::format("replica {}: {}; killing it", replica.id, bounded(error.what())));
    replica.process->kill();
    return false;
  }
}

void ReplicaSet::close(Replica& replica, ReplicaListener& listener) {
  if (!replica.open) return;
  replica.open = false;
  replica.ended_at = Monotonic::now();
  listener.on_closed(replica);
}

// Messages that any replica sent before another one died must be read before that death is handled.
// Otherwise a survivor might count as one without state. A message may arrive after its channel was
// read. So once a channel is found to have ended, all others are read again.
void ReplicaSet::take_messages(ReplicaListener& listener) {
  std::vector<Replica*> ended;
  size_t known;
  do {
    known = ended.size();
    for (auto& [id, replica] : replicas_) {
      if (!replica->open || std::count(ended.begin(), ended.end(), replica.get()) != 0) continue;
      replica->channel.flush();
      if (!drain(*replica, listener)) ended.push_back(replica.get());
    }
    if (agents_ && ended.size() > known) agents_->serve();
  } while (ended.size() > known);
  for (Replica* replica : ended) close(*replica, listener);
}

bool ReplicaSet::take_ends(ReplicaListener& listener, bool children) {
  bool any = false;
  for (auto entry = replicas_.begin(); entry != replicas_.end();) {
    Replica& replica = *entry->second;
    const std::optional<ExitStatus> status = replica.process->poll();
    if (!status) {
      if (replica.ended_at && !replica.in_main &&
          Monotonic::now() >= *replica.ended_at + kEndPatience) {
        replica.process->kill();
        replica.ended_at = Monotonic::now();
      }
      ++entry;
      continue;
    }
    if (replica.open) take_messages(listener);  // messages sent before the death count
    close(replica, listener);
    listener.on_exit(replica, *status);
    entry = replicas_.erase(entry);
    any = true;
  }
  if (children) {
    reap_strangers([this](pid_t pid) {
      return std::any_of(replicas_.begin(), replicas_.end(),
                         [pid](const auto& entry) { return entry.second->process->pid() == pid; });
    });
  }
  return any;
}

}  // namespace adaptdl::launch
