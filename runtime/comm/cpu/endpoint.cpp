#include "runtime/comm/cpu/endpoint.h"

#include <cerrno>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::comm {
namespace {

constexpr size_t kMaxText = 256;
constexpr size_t kMaxAddresses = 16;

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
  return {
      {"host", endpoint.host}, {"name", endpoint.name}, {"unix", endpoint.unix_name}, {"tcp", tcp}};
}

Endpoint parse_endpoint(const nlohmann::json& json) {
  if (!json.is_object()) fail("endpoint of a member: must be a JSON object");
  Endpoint endpoint;
  endpoint.host = text_field(json, "host");
  endpoint.name = text_field(json, "name");
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

}  // namespace adaptdl::comm
