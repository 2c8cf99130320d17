#include "core/launch/hosts/meeting_point.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/net/tcp.h"

namespace adaptdl::launch {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kShortestKey = 32, kMostKeyFile = 4096;  // characters

// Whoever comes second of two that make one uses the first one's.
void make_key(const std::string& file) {
  make_directories(parent_directory(file), 0700);
  const std::string made = fmt::format("{}.{}", file, to_hex(random_bytes(8)));
  write_file_atomic(made, to_hex(random_bytes(kKeyBytes)) + "\n", 0600);
  const int linked = ::link(made.c_str(), file.c_str());
  const int error = errno;
  ::unlink(made.c_str());
  if (linked != 0 && error != EEXIST) fail_errno(error, file + ": cannot make the key");
}

// Of IPv4, and of IPv6 on its link.
struct Place {
  std::string address;  // numeric; "": of another family
  uint32_t link = 0;    // of a link-local address
  bool operator==(const Place&) const = default;
};

Place place_of(const sockaddr* from) {
  if (from == nullptr) return {};
  sockaddr_storage address{};
  if (from->sa_family == AF_INET) {
    std::memcpy(&address, from, sizeof(sockaddr_in));
  } else if (from->sa_family == AF_INET6) {
    std::memcpy(&address, from, sizeof(sockaddr_in6));
  } else {
    return {};
  }
  const bool is_six = from->sa_family == AF_INET6;
  return {tcp_address(address).host,
          is_six ? reinterpret_cast<const sockaddr_in6&>(address).sin6_scope_id : 0};
}

// Each machine has these, but for 127.0.0.1 none of its interfaces need to list them.
bool is_everywhere(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "0.0.0.0" || address == "::";
}

}  // namespace

LauncherAddress parse_meeting_point(std::string_view text) {
  const auto refuse = [&]() -> LauncherAddress {
    throw UsageError(
        fmt::format("--rdzv-endpoint: {} is not HOST:PORT, such as node1:{} or [fd00::1]:{}.",
                    text.empty() ? "''" : text, kMeetingPort, kMeetingPort));
  };
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return refuse();
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (host.empty()) return refuse();
  if (port.empty()) return {std::string(host), kMeetingPort};
  const auto number = port.starts_with(':') ? try_parse<uint16_t>(port.substr(1)) : std::nullopt;
  if (!number || *number == 0) return refuse();
  return {std::string(host), *number};
}

// Whether a socket can be bound to an address would not tell: with ip_nonlocal_bind, which hosts
// with a virtual address have, it can be to any.
bool is_this_machine(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string name = host.substr(host.find('@') + 1);
  if (getaddrinfo(name.c_str(), "0", &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) fail_errno(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> own(first, &freeifaddrs);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const Place place = place_of(each->ai_addr);
    if (is_everywhere(place.address)) return true;
    for (const ifaddrs* other = first; other != nullptr; other = other->ifa_next) {
      if (place_of(other->ifa_addr) == place) return true;
    }
  }
  return false;
}

std::string default_key_file() {
  return join_path(config_directory(), "hosts.key");
}

std::string host_key(const std::string& file) {
  if (!path_exists(file)) make_key(file);
  struct stat state {};
  if (::stat(file.c_str(), &state) != 0) fail_errno(errno, file);
  if ((state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail("{}: others can read this key; make it yours alone: chmod 600 {}", file, file);
  }
  std::string key = read_file(file, kMostKeyFile);
  std::erase_if(key, [](unsigned char c) { return std::isspace(c) != 0; });
  check_host_key(key, file);
  return key;
}

void check_host_key(const std::string& key, const std::string& where) {
  if (key.size() >= kShortestKey) return;
  fail("{}: a key has at least {} characters; `openssl rand -hex 32` makes a good one", where,
       kShortestKey);
}

}  // namespace adaptdl::launch
