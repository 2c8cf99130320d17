#pragma once

// The addresses of this host, and which of them others use.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct HostAddress {
  std::string address;  // numeric, IPv4 or IPv6
  std::string interface;
  bool loopback = false;
};

// Of the interfaces that are up: the default route's first, loopback last, IPv4 before IPv6. Not
// the link-local ones, which name another host on each link. Throws Error.
std::vector<HostAddress> host_addresses();

// The interface that has this numeric address, or "?".
std::string interface_of(const std::string& address);

bool is_numeric_address(const std::string& text);

// Whether a host, a lower-case name or a numeric address without brackets, is this one wherever it
// is said: localhost and names below it (RFC 6761), 127.0.0.0/8, ::1.
bool is_loopback(const std::string& host);

// "10.0.0.1:80", "[fd00::1]:80"
std::string with_port(const std::string& address, uint16_t port);

struct PortRange {
  uint16_t first = 0, last = 0;  // 0: any port
  bool any() const { return last == 0; }
  int count() const { return last - first + 1; }
  bool operator==(const PortRange&) const = default;
};

// "FIRST-LAST". Throws Error.
PortRange parse_ports(std::string_view text);

// How others reach what listens on this host.
struct Reach {
  std::string interface;  // listens at its address: a name, or a numeric address; "": at all
  std::string advertise;  // a numeric address that leads to this host; "": where it listens
  PortRange ports;        // listens at one of them
};

// Where it listens: "" is all addresses. Throws Error if the interface has none, and names those
// that there are.
std::string listening_address(const Reach& reach);

// What others may connect to, the best first; at most 8. Throws Error if there is nothing.
std::vector<HostAddress> reached_at(const Reach& reach);

}  // namespace adaptdl
