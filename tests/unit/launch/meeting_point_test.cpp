#include "core/launch/hosts/meeting_point.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/launch/hosts/agent_link.h"
#include "core/net/addresses.h"
#include "core/net/tcp.h"
#include "tests/support/closed_port.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace meeting_point_test {

TimePoint in(Monotonic::duration time) {
  return Monotonic::now() + time;
}

// A listener whose queue is full, so that the kernel drops what comes, like a firewall.
struct Silent {
  Silent() {
    REQUIRE(::listen(listener.get(), 0) == 0);
    for (bool full = false; !full;) {
      try {
        queued.push_back(connect_tcp("127.0.0.1", port, in(std::chrono::milliseconds(50))));
      } catch (const Error&) {
        full = true;
      }
    }
  }
  Fd listener = listen_tcp(0);
  uint16_t port = port_of(listener.get());
  std::vector<Fd> queued;
};

// What a name with one address for each of these ports would resolve to.
struct Addresses {
  explicit Addresses(const std::vector<uint16_t>& ports)
      : places(ports.size()), infos(ports.size()) {
    for (size_t i = 0; i < ports.size(); ++i) {
      places[i].sin_family = AF_INET;
      places[i].sin_port = htons(ports[i]);
      places[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      infos[i].ai_family = AF_INET;
      infos[i].ai_addr = reinterpret_cast<sockaddr*>(&places[i]);
      infos[i].ai_addrlen = sizeof places[i];
      infos[i].ai_next = i + 1 < ports.size() ? &infos[i + 1] : nullptr;
    }
  }
  std::vector<sockaddr_in> places;
  std::vector<addrinfo> infos;
};

TEST_CASE("meeting point: a host, and a port unless it is torchrun's") {
  const auto is = [](std::string_view text, const char* host, uint16_t port) {
    const LauncherAddress address = parse_meeting_point(text);
    return address.host == host && address.port == port;
  };
  CHECK(is("node1", "node1", 29400));
  CHECK(is("node1:1234", "node1", 1234));
  CHECK(is("10.0.0.1:65535", "10.0.0.1", 65535));
  CHECK(is("[fd00::1]:80", "fd00::1", 80));
  CHECK(is("[fd00::1]", "fd00::1", 29400));
  for (const char* wrong : {"", ":", ":1", "a:", "a:0", "a:65536", "a:-1", "a:1 ", "a:b", "a:1:2",
                            "::1", "[]:1", "[::1", "[::1]2", "[::1]:"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_meeting_point(wrong), UsageError);
  }
}

TEST_CASE("meeting point: which addresses are this machine's") {
  CHECK(is_this_machine("127.0.0.1"));
  CHECK(is_this_machine("localhost"));
  CHECK(is_this_machine("127.0.1.1"));  // as some systems list their own name
  CHECK(is_this_machine("user@::1"));
  for (const HostAddress& each : host_addresses()) CHECK(is_this_machine(each.address));
  CHECK_FALSE(is_this_machine("192.0.2.1"));  // for documentation (RFC 5737): nobody's
  CHECK_FALSE(is_this_machine("2001:db8::1"));
  CHECK_FALSE(is_this_machine("no-such-host.invalid"));
}

TEST_CASE("meeting point: an address that is silent, or refuses, does not hide one that answers") {
  const Silent silent;
  const adaptdl::testing::ClosedPort closed;
  const Fd listener = listen_tcp(0);
  const Addresses three({closed.port, silent.port, port_of(listener.get())});
  const Fd connected = connect_first(three.infos[0], "node1", in(std::chrono::seconds(20)));
  CHECK(connected);
  CHECK(Fd(::accept(listener.get(), nullptr, nullptr)));
}

TEST_CASE("meeting point: a host refuses if all its addresses do") {
  const adaptdl::testing::ClosedPort closed;
  const Addresses twice({closed.port, closed.port});
  CHECK_THROWS_WITH_AS(connect_first(twice.infos[0], "node1", in(std::chrono::seconds(20))),
                       "node1: connection refused", ConnectionRefused);
  const Silent silent;
  for (const auto& ports : {std::vector{silent.port, closed.port}, {closed.port, silent.port}}) {
    const Addresses both(ports);
    CHECK_THROWS_WITH_AS(connect_first(both.infos[0], "node1", in(std::chrono::milliseconds(100))),
                         "node1: Connection timed out", Error);
  }
}

TEST_CASE("host key: whoever comes first makes it, for all") {
  const TemporaryDirectory folder("host-key");
  const std::string file = folder.file("new/folder/key");
  std::vector<std::string> keys(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& key : keys) threads.emplace_back([&] { key = host_key(file); });
  }
  CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == 1);
  CHECK(keys.front().size() == 64);
  struct stat state {};
  REQUIRE(::stat(file.c_str(), &state) == 0);
  CHECK((state.st_mode & 0777) == 0600);
  CHECK(list_directory(parent_directory(file)) == std::vector<std::string>{"key"});
  CHECK(host_key(folder.file("other")) != keys.front());
}

TEST_CASE("host key: neither short nor for others") {
  const TemporaryDirectory folder("host-key");
  const std::string file = folder.file("key");
  write_file_atomic(file, "  0123456789abcdef 0123456789abcdef\r\n", 0600);
  CHECK(host_key(file) == "0123456789abcdef0123456789abcdef");
  for (const mode_t mode : {0640, 0604, 0620}) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    CHECK_THROWS_WITH_AS(host_key(file), doctest::Contains("others can read this key"), Error);
  }
  write_file_atomic(file, "0123456789abcdef\n", 0600);
  CHECK_THROWS_WITH_AS(host_key(file), doctest::Contains("at least 32 characters"), Error);
  remove_tree(file);
  REQUIRE(::mkdir(file.c_str(), 0700) == 0);
  CHECK_THROWS_AS(host_key(file), Error);
}

}  // namespace meeting_point_test
