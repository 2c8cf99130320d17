#include "core/launch/command/command_replicas.h"

#include <algorithm>
#include <csignal>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/launch/command/host_command.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kRunIdBytes = 8;

ReplicasFile claim_file(const CommandOptions& options) {
  if (options.claimed) return std::move(*options.claimed);
  const std::string& path = options.replicas_file;
  if (auto file = claim_replicas_file(path)) return *std::move(file);
  fail("{}: a live run uses this folder; wait for its end, or give this one another folder",
       parent_directory(path));
}

}  // namespace

std::vector<CommandHost> hosts_of_slots(const std::vector<int>& slots,
                                        const std::map<int, int>& first_of) {
  std::vector<CommandHost> hosts;
  int newest = -1;
  for (size_t rank = 0; rank < slots.size(); ++rank) {
    const auto found = first_of.find(slots[rank]);
    const int first = found == first_of.end() ? 0 : found->second;
    if (first == newest) {
      ++hosts.back().replicas;
      continue;
    }
    newest = first;
    hosts.push_back({static_cast<int>(hosts.size()), static_cast<int>(rank), 1});
  }
  return hosts;
}

CommandReplicas::CommandReplicas(const CommandOptions& options, RunReport& report,
                                 ReplicaConsole* console, AgentServer::Events hosts)
    : options_(options),
      here_(
          options, claim_file(options), [&report](const std::string& line) { report.talk(line); },
          console) {
  if (!options.hosts) return;
  Roster roster;
  roster.run_id = to_hex(random_bytes(kRunIdBytes));
  agents_ = std::make_unique<AgentServer>(*options.hosts, options.name, std::move(roster),
                                          std::move(hosts));
}

void CommandReplicas::start(int count, const std::vector<int>& slots, int64_t newest,
                            int failures) {
  ports_.clear();
  for (int i = 0; i < 2; ++i) ports_.push_back(reserve_port());
  CommandGeneration generation;
  generation.number = std::max(here_.generation(), newest) + 1;
  generation.replicas = count;
  generation.failures = failures;
  generation.port = ports_[0].number;
  generation.torch_port = options_.torch_port > 0 ? options_.torch_port : ports_[1].number;
  generation.load_pickles = here_.loads_pickles();
  std::vector<CommandHost> hosts{{.replicas = count}};
  if (agents_) {
    std::map<int, int> first_of;
    for (const AgentServer::Host& host : agents_->all_hosts()) {
      for (const int slot : host.slots) first_of[slot] = host.slots.front();
    }
    hosts = hosts_of_slots(slots, first_of);
  }
  generation.hosts = static_cast<int>(hosts.size());
  try {
    here_.begin(generation, hosts.front(), options_.address);
    for (int rank = 0; rank < hosts.front().replicas; ++rank) {
      here_.start(rank, slots_of(slots, rank, options_.slots_per_replica));
    }
    for (size_t i = 1; i < hosts.size(); ++i) start_elsewhere(generation, hosts[i], slots);
  } catch (const Error&) {
    here_.abandon();
    elsewhere_.clear();
    throw;
  }
}

void CommandReplicas::start_elsewhere(const CommandGeneration& generation, const CommandHost& host,
                                      const std::vector<int>& slots) {
  for (int rank = host.first_rank; rank < host.first_rank + host.replicas; ++rank) {
    const int slot = slots.at(static_cast<size_t>(rank));
    elsewhere_[rank] = {
        agents_->start(static_cast<MemberId>(rank), slot, invitation_of(generation, host)),
        agents_->host_of(slot)};
  }
}

void CommandReplicas::signal_all(int number) {
  here_.signal_all(number);
  for (auto& [rank, remote] : elsewhere_) {
    remote.asked = true;
    if (number == SIGKILL) {
      remote.replica->process->kill();
    } else {
      remote.replica->channel.post({{"type", "terminate"}, {"interrupt", number == SIGINT}});
    }
  }
}

std::vector<EndedReplica> CommandReplicas::take_ends() {
  std::vector<EndedReplica> result = here_.take_ends();
  for (auto entry = elsewhere_.begin(); entry != elsewhere_.end();) {
    Remote& remote = entry->second;
    const auto status = remote.replica->process->poll();
    try {
      remote.replica->channel.flush();
      remote.replica->channel.drain(
          [&](const nlohmann::json& message) { read_failure(message, remote.said); });
    } catch (const std::exception&) {
      // What it says of its end is lost.
    }
    if (!status) {
      ++entry;
      continue;
    }
    EndedReplica replica = std::move(remote.said);
    replica.rank = entry->first;
    replica.status = *status;
    replica.host = remote.host;
    replica.at_s = wall_now_s();
    replica.asked = remote.asked;
    replica.lost = remote.replica->process->lost();
    replica.host_lost = !replica.lost.empty() && status->signaled;
    replica.out_of_memory = !remote.asked && remote.replica->process->memory_ran_out();
    result.push_back(std::move(replica));
    entry = elsewhere_.erase(entry);
  }
  return result;
}

void CommandReplicas::generation_ended(bool restartable) {
  ports_.clear();
  if (restartable) here_.can_restart();
}

std::vector<int> CommandReplicas::ranks() const {
  std::vector<int> result = here_.ranks();
  for (const auto& [rank, remote] : elsewhere_) result.push_back(rank);
  return result;
}

pid_t CommandReplicas::pid(int rank) const {
  const auto found = elsewhere_.find(rank);
  return found == elsewhere_.end() ? here_.pid(rank) : found->second.replica->process->pid();
}

void CommandReplicas::explain(EndedReplica& replica) {
  if (replica.host.empty()) here_.explain(replica);
}

bool CommandReplicas::needs_pickles(const EndedReplica& replica) {
  return replica.host.empty() ? here_.needs_pickles(replica.rank) : replica.refused_pickle;
}

void CommandReplicas::serve_hosts() {
  if (agents_) agents_->serve();
}

void CommandReplicas::end_hosts(int exit) {
  if (agents_) agents_->end(exit);
}

void CommandReplicas::add_waits(std::vector<pollfd>& waits) const {
  here_.add_waits(waits);
  if (agents_) agents_->add_waits(waits);
  for (const auto& [rank, remote] : elsewhere_) waits.push_back(remote.replica->channel.wait());
}

TimePoint CommandReplicas::deadline() const {
  const TimePoint here = here_.deadline();
  return agents_ ? std::min(here, agents_->deadline()) : here;
}

}  // namespace adaptdl::launch
