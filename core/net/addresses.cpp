#include "core/net/addresses.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <fmt/ranges.h>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sstream>
#include <tuple>

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {
namespace {

constexpr size_t kMostReached = 8;

// The address as text; "" for another family or a link-local one.
std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return text;
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) {
      inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    }
  }
  return text;
}

// The interface of the default route, of IPv4 or else of IPv6; "" if there is none.
std::string default_route_interface() {
  std::ifstream table("/proc/net/route");
  std::string line;
  std::getline(table, line);  // headings
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string name, destination;
    if (fields >> name >> destination && destination == "00000000") return name;
  }
  table = std::ifstream("/proc/net/ipv6_route");
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string destination, length, rest, name;
    fields >> destination >> length;
    while (fields >> rest) name = rest;
    const bool any = length == "00" && destination.find_first_not_of('0') == destination.npos;
    if (any && name != "lo") return name;  // the kernel has routes to nowhere by lo
  }
  return {};
}

HostAddress chosen_address(const std::string& wanted) {
  const std::vector<HostAddress> all = host_addresses();
  const auto found = std::ranges::find_if(all, [&](const HostAddress& each) {
    return each.interface == wanted || each.address == wanted;
  });
  if (found != all.end()) return *found;
  std::vector<std::string> there;
  for (const HostAddress& each : all) {
    there.push_back(fmt::format("{} ({})", each.interface, each.address));
  }
  fail("network interface {}: not found, down or without an address; this host has {}", wanted,
       fmt::join(there, ", "));
}

}  // namespace

std::vector<HostAddress> host_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) fail_errno(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(first, &freeifaddrs);
  const std::string usual = default_route_interface();
  std::vector<HostAddress> found;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    const unsigned needed = IFF_UP | IFF_RUNNING;
    if ((each->ifa_flags & needed) != needed) continue;
    const std::string address = numeric(each->ifa_addr);
    if (address.empty()) continue;
    found.push_back({address, each->ifa_name, (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  std::ranges::stable_sort(found, {}, [&](const HostAddress& each) {
    const bool is_six = each.address.find(':') != std::string::npos;
    return std::tuple(each.loopback, each.interface != usual, is_six);
  });
  return found;
}

std::string interface_of(const std::string& address) {
  for (const HostAddress& each : host_addresses()) {
    if (each.address == address) return each.interface;
  }
  return "?";
}

bool is_loopback(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost")) return true;
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_numeric_address(const std::string& text) {
  in6_addr any;
  return inet_pton(AF_INET, text.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

std::string with_port(const std::string& address, uint16_t port) {
  const bool is_six = address.find(':') != std::string::npos;
  return is_six ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

PortRange parse_ports(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = try_parse<uint16_t>(text.substr(0, dash));
  const auto last = dash == text.npos ? std::nullopt : try_parse<uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    fail("{} is not FIRST-LAST, such as 29500-29515", text.empty() ? "''" : text);
  }
  return {*first, *last};
}

std::string listening_address(const Reach& reach) {
  return reach.interface.empty() ? "" : chosen_address(reach.interface).address;
}

std::vector<HostAddress> reached_at(const Reach& reach) {
  if (!reach.advertise.empty()) return {{reach.advertise, "advertised"}};
  if (!reach.interface.empty()) return {chosen_address(reach.interface)};
  std::vector<HostAddress> all = host_addresses();
  if (all.empty()) fail("no network interface is up: other hosts cannot reach this one");
  // Loopback serves who is on this machine, in case there is nothing else.
  if (!all.front().loopback) std::erase_if(all, [](const HostAddress& a) { return a.loopback; });
  all.resize(std::min(all.size(), kMostReached));
  return all;
}

}  // namespace adaptdl
