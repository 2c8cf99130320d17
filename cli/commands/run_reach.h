#pragma once

// The flags of `adaptdl run` on how other hosts reach this one.

#include "cli/frame/parse.h"
#include "core/net/addresses.h"

namespace adaptdl::cli {

// --ports; any if it is not given. Throws UsageError.
PortRange given_ports(const Arguments& arguments);

// Checks what can be checked here. Throws UsageError or Error.
Reach parse_reach(const Arguments& arguments);

// Throws UsageError if there are fewer ports than the replicas of this host need, and its launcher
// if that `leads` at a port of theirs.
void check_ports(const PortRange& ports, int replicas, bool leads);

}  // namespace adaptdl::cli
