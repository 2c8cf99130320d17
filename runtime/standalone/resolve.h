#pragma once

// Names of hosts as socket addresses.

#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace adaptdl::standalone {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  bool is_any() const;
  bool is_loopback() const;
  std::string text() const;  // numeric, without the port
};

// TCP addresses of a name or a numeric address, at least one. Throws Error if there is none. May
// take as long as the system's resolver does.
std::vector<Address> resolve(const std::string& host, int port);

// All of this host, in the family and at the port of `like`.
Address any_address(const Address& like);

Address local_address(int socket);  // of a connected TCP socket

// Whether who uses this name means this host alone: "localhost", or a numeric loopback address.
// Other names may be loopback addresses on their own host (Debian: "127.0.1.1 node1" in /etc/hosts)
// and others elsewhere.
bool names_loopback(const std::string& host);

// Where rank 0 listens if its host is called `host` and has these addresses, by preference: at
// loopback addresses only if that names this host alone, as others would not reach it.
std::vector<Address> where_to_listen(const std::string& host,
                                     const std::vector<Address>& addresses);

}  // namespace adaptdl::standalone
