#include "core/launch/hosts/host_slots.h"

#include <fmt/format.h>
#include <utility>

namespace adaptdl::launch {

AgentServer::Events slot_events(std::vector<int>& slots, RunReport& report,
                                std::function<void()> changed) {
  AgentServer::Events events;
  events.joined = [&slots, &report, changed](const AgentServer::Slots& its,
                                             const std::string& host) {
    report.talk(fmt::format("host {} has joined with {} slot{}", host, its.size(),
                            its.size() == 1 ? "" : "s"));
    slots.insert(slots.end(), its.begin(), its.end());
    changed();
  };
  events.left = [&slots, &report, changed = std::move(changed)](const AgentServer::Slots& its,
                                                                const std::string& host,
                                                                const std::string& why) {
    report.talk(fmt::format("host {} {}", host, why));
    for (const int slot : its) std::erase(slots, slot);
    changed();
  };
  events.witness = [&report](const std::string& host, const std::string& news) {
    report.talk(fmt::format("host {} {}", host, news));
  };
  return events;
}

bool waits_for_hosts(int here, int least, uint16_t port, std::string& reason, RunReport& report) {
  if (here >= least) return false;
  std::string now = fmt::format("waiting for hosts: {} of at least {} are here", here, least);
  if (reason != now) report.talk(fmt::format("{} (TCP port {})", now, port));
  reason = std::move(now);
  return true;
}

}  // namespace adaptdl::launch
