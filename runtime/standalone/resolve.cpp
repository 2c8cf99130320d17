#include "runtime/standalone/resolve.h"

#include <arpa/inet.h>
#include <cstring>
#include <memory>
#include <netdb.h>

#include "core/base/error.h"

namespace adaptdl::standalone {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

}  // namespace

bool Address::is_any() const {
  if (family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

bool Address::is_loopback() const {
  if (family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

std::string Address::text() const {
  char host[NI_MAXHOST];
  if (getnameinfo(get(), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return host;
}

std::vector<Address> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (problem != 0) fail("cannot find the host \"{}\": {}", host, gai_strerror(problem));
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  std::vector<Address> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address address;
    address.length = one->ai_addrlen;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    all.push_back(address);
  }
  return all;
}

Address any_address(const Address& like) {
  Address address = like;
  if (like.family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr.s_addr = htonl(INADDR_ANY);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr = in6addr_any;
  }
  return address;
}

bool names_loopback(const std::string& host) {
  // As "localhost.localdomain" and "ip6-localhost", which some systems have.
  if (host.find("localhost") != host.npos || host == "ip6-loopback") return true;
  in6_addr v6;
  in_addr v4;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return inet_aton(host.c_str(), &v4) != 0 && ntohl(v4.s_addr) >> 24 == 127;
}

std::vector<Address> where_to_listen(const std::string& host,
                                     const std::vector<Address>& addresses) {
  if (names_loopback(host)) return addresses;
  std::vector<Address> reached = addresses;
  std::erase_if(reached, [](const Address& address) { return address.is_loopback(); });
  if (reached.empty()) reached.push_back(any_address(addresses.front()));
  return reached;
}

Address local_address(int socket) {
  Address address;
  address.length = sizeof address.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    fail_errno(errno, "cannot read a socket's address");
  }
  return address;
}

}  // namespace adaptdl::standalone
