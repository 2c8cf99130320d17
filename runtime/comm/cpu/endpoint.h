#pragma once

// The addresses of a member, as sent to the others.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace adaptdl::comm {

struct TcpAddress {
  std::string host;  // numeric, IPv4 or IPv6 (with %scope where it needs one)
  uint16_t port = 0;
  std::string interface;
};

struct Endpoint {
  std::string host;       // equal for members that can share memory
  std::string unix_name;  // in the abstract namespace, without the leading zero byte
  std::vector<TcpAddress> tcp;
};

nlohmann::json to_json(const Endpoint& endpoint);

// Throws Error for anything that to_json does not produce: all lengths are bounded.
Endpoint parse_endpoint(const nlohmann::json& json);

// The kernel's boot id and the network namespace: equal for processes that can connect to each
// other with abstract Unix sockets.
std::string host_identity();

// The address to listen on: of the interface `wanted`. If `wanted` is empty: of the default route's
// interface, else of the first that is up and not loopback, else of loopback. IPv4 before IPv6;
// port 0. Throws Error if `wanted` has no usable address.
TcpAddress choose_address(const std::string& wanted);

// Name of the interface that has this numeric address, or "?".
std::string interface_of(const std::string& address);

}  // namespace adaptdl::comm
