#include "core/launch/hosts/roster.h"

#include <algorithm>

#include "core/formats/json.h"
#include "core/launch/hosts/agent_link.h"

namespace adaptdl::launch {

const Roster::Host* Roster::find(const std::string& id) const {
  const auto found = std::ranges::find(hosts, id, &Host::id);
  return found == hosts.end() ? nullptr : &*found;
}

bool Roster::any_may_lead() const {
  return std::ranges::any_of(hosts, [](const Host& host) { return host.port != 0; });
}

nlohmann::json to_json(const Roster& roster) {
  Json hosts = Json::array();
  for (const Roster::Host& host : roster.hosts) {
    hosts.push_back({{"id", host.id}, {"address", host.address}, {"port", host.port}});
  }
  return {{"number", roster.number},
          {"run_id", roster.run_id},
          {"launcher", roster.launcher},
          {"shared", roster.shared},
          {"size", roster.size},
          {"hosts", std::move(hosts)},
          {"generation", roster.announced.generation},
          {"members", roster.announced.members},
          {"led_here", roster.led_here}};
}

Roster roster_from_json(const nlohmann::json& json, const char* what) {
  Roster roster;
  roster.number = json_get<int64_t>(json, "number", what);
  roster.run_id = json_get<std::string>(json, "run_id", what);
  roster.launcher = json_get_or<std::string>(json, "launcher", what, "");
  roster.shared = json_get<bool>(json, "shared", what);
  roster.size = json_get<int>(json, "size", what);
  for (const Json& host : json_get<std::vector<Json>>(json, "hosts", what)) {
    roster.hosts.push_back({json_get<std::string>(host, "id", what),
                            json_get<std::string>(host, "address", what),
                            json_get<uint16_t>(host, "port", what)});
  }
  roster.announced.generation = json_find<uint64_t>(json, "generation", what).value_or(0);
  roster.announced.members =
      json_find<std::vector<MemberId>>(json, "members", what).value_or(std::vector<MemberId>());
  roster.led_here = json_get_or<bool>(json, "led_here", what, false);
  if (roster.size < static_cast<int>(roster.hosts.size()) || roster.size > kMostHosts) {
    fail("{}: {} hosts of {}", what, roster.hosts.size(), roster.size);
  }
  return roster;
}

int needed_to_lead(const Roster& roster) {
  return roster.shared ? 1 : enough_without_launcher(roster.size);
}

bool may_go_on(const Roster& roster, const std::string& id) {
  if (roster.find(id) == nullptr || !roster.any_may_lead()) return false;
  return static_cast<int>(roster.hosts.size()) >= needed_to_lead(roster);
}

}  // namespace adaptdl::launch
