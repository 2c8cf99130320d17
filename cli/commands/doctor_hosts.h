#pragma once

// `adaptdl doctor --hosts`: what the network between hosts is like, for people and programs.

#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/launch/hosts/host_check.h"

namespace adaptdl::cli {

// `hosts`: their names, in the order of the check.
std::string describe(const launch::HostCheck& check, const std::vector<std::string>& hosts);

// {"ok", "hosts": [{host, problem}], "connections": of each link, "links": [{from, to, address,
// interface, more_addresses: [{address, interface}], latency_s, bytes_per_s, problem}],
// "all_reduce": {bytes, seconds, from, to} or null}
Json to_json(const launch::HostCheck& check, const std::vector<std::string>& hosts);

}  // namespace adaptdl::cli
