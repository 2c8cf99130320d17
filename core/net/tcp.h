#pragma once

// TCP sockets between hosts, non-blocking and close-on-exec: listening, and connecting to a host
// that has several addresses.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/net/addresses.h"

struct sockaddr_storage;

namespace adaptdl {

struct TcpAddress {
  std::string host;  // numeric, IPv4 or IPv6
  uint16_t port = 0;
  std::string interface;  // of its host, for people
};

// Listens at `address`, whose host may be "": all addresses, IPv6 and IPv4. At one of `ports`, if
// they are given, else at the address's port, or at any one that is free if that is 0. Fills in the
// port. Throws Error.
Fd listen_tcp(TcpAddress& address, const PortRange& ports = {});
Fd listen_tcp(uint16_t port);  // at all addresses

uint16_t port_of(int socket);  // that it is bound to. Throws Error
// Host and port; IPv4 ones as such, although a socket for both families has them as IPv6 ones.
TcpAddress tcp_address(const sockaddr_storage& address);

// Where the system's congestion control is BBR, the sockets of this file have CUBIC, or Reno. A
// connected one gets BBR back by this if its round trip takes 5 ms or more.
void suit_distance(int socket);

// Connects to a host by each of its addresses: by the next one once those before have failed, or
// have not answered for a quarter of a second, as many hosts have addresses that lead nowhere from
// elsewhere. One thread.
class Dialling {
 public:
  // Throws Error if an address is not numeric.
  explicit Dialling(const std::vector<TcpAddress>& addresses);

  struct Found {
    Fd socket;
    size_t which;  // of the addresses
  };
  // The next address that is connected. Nothing: none is left, `deadline` has passed, or `cancel`
  // (a descriptor; -1: none) is readable.
  std::optional<Found> next(TimePoint deadline, int cancel = -1);

  // Whether next() has nothing more to wait for or to try.
  bool exhausted() const;
  // What became of a connection that next() has found.
  void failed(size_t which, std::string problem);
  std::string problem(size_t which) const;  // without one it has timed out
  // "10.0.0.2 port 4000 (eth0): refused; ...", of all addresses.
  std::string problems() const;

 private:
  struct Attempt {
    TcpAddress address;
    Fd socket;            // that is being connected
    std::string problem;  // "": none yet
  };

  void begin(Attempt& attempt);
  bool any_open() const;
  std::optional<Found> connected(Attempt& attempt);

  std::vector<Attempt> attempts_;
  size_t begun_ = 0;   // of the attempts
  TimePoint next_at_;  // when the next one begins at the latest
};

// Without the addresses that this host has, too, such as those of a bridge for containers: they
// lead back to it. All of them if all are `own`.
std::vector<TcpAddress> leading_away(const std::vector<TcpAddress>& addresses,
                                     const std::vector<std::string>& own);
std::vector<std::string> own_addresses();  // of this host. Throws Error

inline constexpr int kMaxLinks = 16;  // connections for data between two hosts

// Spreads several connections to a host over its interfaces and addresses, for one host after
// another. One thread.
class Spread {
 public:
  // Begins another host.
  void next_host() { by_interface_.clear(), by_address_.clear(), silent_addresses_.clear(); }
  // As the host's next connection should try them: the one whose interface has the fewest, then
  // those by which some go, as these answer, then the others.
  std::vector<TcpAddress> order(std::vector<TcpAddress> addresses) const;
  // The next connection goes by `tried[which]`. Those before it have not answered, and would delay
  // others: they come last from now on, and so do their interfaces with further hosts, if they have
  // answered with none. Returns whether it is the first one by that address.
  bool used(const std::vector<TcpAddress>& tried, size_t which);

 private:
  std::map<std::string, int> by_interface_, by_address_;  // connections to this host
  std::set<std::string> silent_addresses_;                // of it
  std::set<std::string> answering_, silent_;              // interfaces
};

// Why connecting failed, in the words of people who look after networks.
std::string connect_problem(int error);

}  // namespace adaptdl
