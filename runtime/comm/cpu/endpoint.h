#pragma once

// Where a member can be reached, as it is told to the others.

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

// Throws Error for anything but what to_json makes: all lengths are bounded.
Endpoint parse_endpoint(const nlohmann::json& json);

// The kernel's boot id and the network namespace: equal for processes that can reach each other by
// abstract Unix sockets.
std::string host_identity();

// The address to listen on: of the interface `wanted`, or, if that is empty, of the interface of
// the default route, else of the first that is up and not loopback, else of loopback. IPv4 before
// IPv6; port 0. Throws Error when `wanted` has no usable address.
TcpAddress choose_address(const std::string& wanted);

// Name of the interface that has this numeric address, or "?".
std::string interface_of(const std::string& address);

}  // namespace adaptdl::comm
