#include "core/launch/hosts/host_workers.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::launch {

HostWorkers::HostWorkers(const RunOptions& options, const Talk& talk, Post post)
    : options_(options),
      talk_(talk),
      post_(std::move(post)),
      logs_(options.log_dir, options.log_bytes_max, talk,
            options.echo_logs ? LogWriter::to_standard_error() : LogWriter::Echo()),
      starter_(options, logs_),
      oom_(options.system_root) {}

void HostWorkers::add_waits(std::vector<pollfd>& waits) const {
  for (const auto& [id, worker] : replicas_) {
    waits.push_back({worker->process.descriptor(), POLLIN, 0});
    if (worker->open) waits.push_back(worker->channel.wait());
  }
}

void HostWorkers::start(MemberId member, int slot, const nlohmann::json& invitation,
                        const std::string& /*launcher*/) {
  try {
    if (slot < 0 || slot >= options_.hosts->slots) fail("this host has no slot {}", slot);
    auto [child, channel] = starter_.start_invited(member, slot, invitation);
    post_({{"type", "started"}, {"member", member}, {"pid", child.pid()}});
    replicas_[member] =
        std::make_unique<Worker>(Worker{LocalProcess(std::move(child)), std::move(channel), slot});
  } catch (const Error& error) {
    talk_(error.what());
    post_({{"type", "ended"}, {"member", member}, {"reason", error.what()}});
  }
}

void HostWorkers::tell(MemberId member, nlohmann::json message) {
  const auto found = replicas_.find(member);
  if (found == replicas_.end() || !found->second->open) return;
  // The launcher's number is for its own host's cores.
  if (message.contains("threads")) message["threads"] = starter_.threads_for(options_.hosts->slots);
  found->second->channel.post(message);
  found->second->memory.told(message);
}

void HostWorkers::passed_on(MemberId member, uint64_t events) {
  const auto found = replicas_.find(member);
  if (found != replicas_.end()) found->second->memory.passed_on(events);
}

void HostWorkers::kill(MemberId member) {
  const auto found = replicas_.find(member);
  if (found != replicas_.end()) found->second->process.kill();
}

void HostWorkers::kill_all() {
  for (auto& [id, worker] : replicas_) worker->process.kill();
}

void HostWorkers::take(bool children) {
  for (auto entry = replicas_.begin(); entry != replicas_.end();) {
    const MemberId member = entry->first;
    Worker& worker = *entry->second;
    while (const auto stopped = children ? worker.process.stop_change() : std::nullopt) {
      post_({{"type", "stopped"}, {"member", member}, {"stopped", *stopped}});
    }
    const auto status = worker.process.poll();
    if (worker.open) hear(member, worker);
    if (!status) {
      ++entry;
      continue;
    }
    post_({{"type", "ended"},
           {"member", member},
           {"signaled", status->signaled},
           {"value", status->value},
           {"memory", oom_.explains(*status)}});
    entry = replicas_.erase(entry);
  }
  if (children) {
    reap_strangers([this](pid_t pid) {
      return std::any_of(replicas_.begin(), replicas_.end(),
                         [pid](const auto& entry) { return entry.second->process.pid() == pid; });
    });
  }
}

void HostWorkers::hear(MemberId member, Worker& worker) {
  try {
    worker.channel.flush();
    worker.open = worker.channel.drain([&](nlohmann::json message) {
      const nlohmann::json said = {
          {"type", "say"}, {"member", member}, {"message", std::move(message)}};
      post_(said);
      worker.memory.said(said["message"]);
    });
    if (!worker.open) post_({{"type", "closed"}, {"member", member}});
  } catch (const std::exception& error) {
    talk_(fmt::format("replica {}: {}; killing it", member, error.what()));
    worker.open = false;
    worker.process.kill();
  }
}

void HostWorkers::tell_all(Channel& link) {
  for (const auto& [member, worker] : replicas_) {
    link.post({{"type", "keeps"},
               {"member", member},
               {"slot", worker->slot},
               {"pid", worker->process.pid()},
               {"generations", worker->memory.generations()}});
    for (const nlohmann::json& message : worker->memory.messages()) {
      link.post({{"type", "say"}, {"member", member}, {"message", message}});
    }
    worker->memory.told_again();
    if (!worker->open) link.post({{"type", "closed"}, {"member", member}});
  }
}

}  // namespace adaptdl::launch
