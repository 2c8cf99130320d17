#pragma once

// The addresses of a member, as sent to the others.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/net/tcp.h"

namespace adaptdl::comm {

struct Endpoint {
  std::string host;             // equal for members that can share memory
  std::string name;             // of the host, for people
  std::string unix_name;        // in the abstract namespace, without the leading zero byte
  std::vector<TcpAddress> tcp;  // the best first
};

nlohmann::json to_json(const Endpoint& endpoint);

// Throws Error for anything that to_json does not produce: all lengths are bounded.
Endpoint parse_endpoint(const nlohmann::json& json);

// The kernel's boot id and the network namespace: equal for processes that can connect to each
// other with abstract Unix sockets.
std::string host_identity();

}  // namespace adaptdl::comm
