#include "runtime/comm/cpu/endpoint.h"

#include <arpa/inet.h>
#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::comm {
namespace {

constexpr size_t kMaxText = 256;
constexpr size_t kMaxAddresses = 16;

struct Interfaces {
  Interfaces() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) fail_errno(errno, "cannot list the network interfaces");
    all.reset(list);
  }
  struct Free {
    void operator()(ifaddrs* list) const { freeifaddrs(list); }
  };
  std::unique_ptr<ifaddrs, Free> all;
};

// The address as text, or nothing for another family or a link-local one (it would need the
// other side's scope).
std::optional<std::string> numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN];
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;
    return inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return std::nullopt;
}

// Interface of the IPv4 default route; empty if there is none.
std::string default_route_interface() {
  std::ifstream table("/proc/net/route");
  std::string line;
  std::getline(table, line);  // headings
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string name, destination;
    if (fields >> name >> destination && destination == "00000000") return name;
  }
  return {};
}

std::string text_field(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string() ||
      found->get_ref<const std::string&>().size() > kMaxText) {
    fail("endpoint of a member: \"{}\" must be a string of at most {} bytes", key, kMaxText);
  }
  return found->get<std::string>();
}

}  // namespace

nlohmann::json to_json(const Endpoint& endpoint) {
  nlohmann::json tcp = nlohmann::json::array();
  for (const TcpAddress& address : endpoint.tcp) {
    tcp.push_back(
        {{"host", address.host}, {"port", address.port}, {"interface", address.interface}});
  }
  return {{"host", endpoint.host}, {"unix", endpoint.unix_name}, {"tcp", tcp}};
}

Endpoint parse_endpoint(const nlohmann::json& json) {
  if (!json.is_object()) fail("endpoint of a member: must be a JSON object");
  Endpoint endpoint;
  endpoint.host = text_field(json, "host");
  endpoint.unix_name = text_field(json, "unix");
  if (endpoint.unix_name.size() > 64) fail("endpoint of a member: \"unix\" is too long");
  const auto tcp = json.find("tcp");
  if (tcp == json.end() || !tcp->is_array() || tcp->size() > kMaxAddresses) {
    fail("endpoint of a member: \"tcp\" must be a list of at most {} addresses", kMaxAddresses);
  }
  for (const auto& item : *tcp) {
    if (!item.is_object()) fail("endpoint of a member: an address must be a JSON object");
    const auto port = item.find("port");
    if (port == item.end() || !port->is_number_unsigned() || port->get<uint64_t>() == 0 ||
        port->get<uint64_t>() > 65535) {
      fail("endpoint of a member: \"port\" must be a number from 1 to 65535");
    }
    endpoint.tcp.push_back({text_field(item, "host"), static_cast<uint16_t>(port->get<uint64_t>()),
                            text_field(item, "interface")});
  }
  return endpoint;
}

std::string host_identity() {
  std::string boot = read_file("/proc/sys/kernel/random/boot_id", 128);
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) != 0) {
    fail_errno(errno, "cannot read /proc/self/ns/net");
  }
  return fmt::format("{}/{}", boot, network.st_ino);
}

TcpAddress choose_address(const std::string& wanted) {
  const Interfaces interfaces;
  // The best address that `accept` lets through, IPv4 before IPv6.
  const auto find = [&](auto&& accept) -> std::optional<TcpAddress> {
    for (const int family : {AF_INET, AF_INET6}) {
      for (const ifaddrs* i = interfaces.all.get(); i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family) continue;
        if ((i->ifa_flags & IFF_UP) == 0 || !accept(*i)) continue;
        if (auto address = numeric(i->ifa_addr)) return TcpAddress{*address, 0, i->ifa_name};
      }
    }
    return std::nullopt;
  };
  if (!wanted.empty()) {
    auto found = find([&](const ifaddrs& i) { return wanted == i.ifa_name; });
    if (!found) fail("network interface \"{}\": not found, down or without an address", wanted);
    return *found;
  }
  const std::string usual = default_route_interface();
  auto found = find([&](const ifaddrs& i) { return usual == i.ifa_name; });
  if (!found) found = find([](const ifaddrs& i) { return (i.ifa_flags & IFF_LOOPBACK) == 0; });
  if (!found) found = find([](const ifaddrs&) { return true; });
  if (!found) fail("no network interface is up: cannot listen for members on other hosts");
  return *found;
}

std::string interface_of(const std::string& address) {
  const Interfaces interfaces;
  for (const ifaddrs* i = interfaces.all.get(); i != nullptr; i = i->ifa_next) {
    if (numeric(i->ifa_addr) == address) return i->ifa_name;
  }
  return "?";
}

}  // namespace adaptdl::comm
