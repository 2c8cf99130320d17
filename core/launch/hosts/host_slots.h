#pragma once

// What launchers of programs and of commands do alike when hosts come and go.

#include <functional>
#include <string>
#include <vector>

#include "core/launch/hosts/agent_server.h"
#include "core/launch/io/run_report.h"

namespace adaptdl::launch {

// Events `joined` and `left` that keep the run's slots in `slots`, tell the user, and then call
// `changed`. Borrows `slots` and `report`.
AgentServer::Events slot_events(std::vector<int>& slots, RunReport& report,
                                std::function<void()> changed);

// Whether fewer hosts are here than the run needs; then `reason` says so. Tells the user, unless
// `reason` has said the same before. `port`: where the launcher listens for them.
bool waits_for_hosts(int here, int least, uint16_t port, std::string& reason, RunReport& report);

}  // namespace adaptdl::launch
