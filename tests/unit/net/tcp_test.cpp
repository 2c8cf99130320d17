#include "core/net/tcp.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/net/addresses.h"
#include "tests/support/closed_port.h"

using namespace adaptdl;

namespace {

TimePoint in(std::chrono::milliseconds time) {
  return Monotonic::now() + time;
}

// A listener whose queue is full, so that the kernel drops what comes, like a firewall.
struct Silent {
  Silent() {
    REQUIRE(::listen(listener.get(), 0) == 0);
    for (bool full = false; !full;) {
      Dialling next({address});
      auto found = next.next(in(std::chrono::milliseconds(50)));
      full = !found;
      if (found) queued.push_back(std::move(found->socket));
    }
  }
  TcpAddress address{"127.0.0.1", 0, "silent0"};
  Fd listener = listen_tcp(address);
  std::vector<Fd> queued;
};

}  // namespace

TEST_CASE("connections are spread over the interfaces that answer") {
  const TcpAddress a{"10.0.0.1", 1, "a"}, a6{"fd00::1", 1, "a"}, b{"10.0.1.1", 1, "b"},
      c{"10.0.2.1", 1, "c"};
  Spread spread;
  const auto order = [&] {
    std::string text;
    for (const TcpAddress& each : spread.order({a, a6, b, c})) text += each.host + " ";
    return text;
  };
  const auto use = [&](size_t which) { return spread.used(spread.order({a, a6, b, c}), which); };
  CHECK(order() == "10.0.0.1 fd00::1 10.0.1.1 10.0.2.1 ");
  CHECK(use(0));
  // Another interface first, then what answers.
  CHECK(order() == "10.0.1.1 10.0.0.1 10.0.2.1 fd00::1 ");
  CHECK(!use(1));  // b does not answer
  CHECK(order() == "10.0.2.1 10.0.0.1 fd00::1 10.0.1.1 ");
  CHECK(use(0));
  CHECK(order() == "10.0.2.1 10.0.0.1 fd00::1 10.0.1.1 ");
  // The next host: its b comes last, as that interface has answered nowhere.
  spread.next_host();
  CHECK(order() == "10.0.0.1 fd00::1 10.0.2.1 10.0.1.1 ");
  CHECK(use(3));  // it alone answers
  CHECK(order().starts_with("10.0.1.1 "));
}

TEST_CASE("addresses that this host has, too, lead back to it") {
  const TcpAddress bridge{"172.17.0.1", 1, "docker0"}, other{"10.0.0.2", 1, "eth0"};
  CHECK(leading_away({bridge, other}, {"172.17.0.1", "10.0.0.1"}).front().host == "10.0.0.2");
  CHECK(leading_away({bridge, other}, {"172.17.0.1", "10.0.0.1"}).size() == 1);
  CHECK(leading_away({bridge}, {"172.17.0.1"}).size() == 1);
}

TEST_CASE("a range of ports is FIRST-LAST") {
  CHECK(parse_ports("80-80") == PortRange{80, 80});
  CHECK(parse_ports("29500-29515").count() == 16);
  CHECK(PortRange{}.any());
  for (const char* bad : {"", "80", "0-5", "5-4", "5-70000", "a-b", "5-", "-5", "5-6-7"}) {
    CHECK_THROWS_WITH_AS(parse_ports(bad), doctest::Contains("is not FIRST-LAST"), Error);
  }
}

TEST_CASE("addresses are numeric, and their ports can be told from them") {
  CHECK(is_numeric_address("10.0.0.1"));
  CHECK(is_numeric_address("fd00::1"));
  CHECK(!is_numeric_address("node1"));
  CHECK(!is_numeric_address("[fd00::1]"));
  CHECK(with_port("10.0.0.1", 80) == "10.0.0.1:80");
  CHECK(with_port("fd00::1", 80) == "[fd00::1]:80");
}

TEST_CASE("an interface is chosen by its name or an address of it") {
  CHECK(listening_address({}) == "");
  CHECK(listening_address({.interface = "lo"}) == "127.0.0.1");
  CHECK(listening_address({.interface = "127.0.0.1"}) == "127.0.0.1");
  CHECK(interface_of("127.0.0.1") == "lo");
  CHECK(interface_of("192.0.2.1") == "?");
  for (const char* none : {"none0", "192.0.2.1"}) {
    CHECK_THROWS_WITH_AS(listening_address({.interface = none}), doctest::Contains("this host has"),
                         Error);
  }
}

TEST_CASE("others are told one chosen address, or all that lead to this host") {
  REQUIRE(reached_at({.interface = "lo"}).size() == 1);
  CHECK(reached_at({.interface = "lo"})[0].address == "127.0.0.1");
  const auto advertised = reached_at({.interface = "lo", .advertise = "192.0.2.7"});
  REQUIRE(advertised.size() == 1);
  CHECK(advertised[0].address == "192.0.2.7");
  const auto all = reached_at({});
  REQUIRE(!all.empty());
  for (const HostAddress& each : all) CHECK(each.loopback == all[0].loopback);
}

TEST_CASE("a listener takes a free port of its range") {
  TcpAddress first{"127.0.0.1", 0, ""};
  const Fd any = listen_tcp(first);
  const PortRange two{first.port, static_cast<uint16_t>(first.port + 1)};
  TcpAddress next{"127.0.0.1", 0, ""};
  Fd second;
  try {
    second = listen_tcp(next, two);
  } catch (const Error&) {  // somebody else has the other one
  }
  if (second) CHECK(next.port == first.port + 1);
  CHECK_THROWS_WITH_AS(listen_tcp(next, {first.port, first.port}), doctest::Contains("are taken"),
                       Error);
}

TEST_CASE("a host is reached by the address that answers, whatever the others do") {
  const testing::ClosedPort closed;
  TcpAddress open{"", 0, ""};
  const Fd listener = listen_tcp(open);
  const Silent silent;
  Dialling dialling({silent.address,
                     {"127.0.0.1", closed.port, "lo"},
                     {"127.0.0.1", open.port, "lo"},
                     silent.address});
  const auto found = dialling.next(in(std::chrono::seconds(10)));
  REQUIRE(found);
  CHECK(found->which == 2);
  CHECK(Fd(::accept(listener.get(), nullptr, nullptr)));
  dialling.failed(2, "it has another key");
  CHECK(dialling.problem(1) == "refused");
  CHECK(!dialling.next(in(std::chrono::milliseconds(1))));
  const std::string text = dialling.problems();
  CHECK(text.find("127.0.0.1 port " + std::to_string(closed.port) +
                  " (lo): refused; 127.0.0.1 "
                  "port " +
                  std::to_string(open.port) + " (lo): it has another key; 127.0.0.1") !=
        std::string::npos);
}

TEST_CASE("dialling ends when nothing is left, and when it is cancelled") {
  const testing::ClosedPort closed;
  Dialling refused({{"127.0.0.1", closed.port, "lo"}});
  CHECK(!refused.next(in(std::chrono::seconds(10))));
  CHECK(refused.exhausted());
  CHECK(Dialling({}).exhausted());
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Fd cancel(ends[0]);
  Fd(ends[1]).reset();
  const Silent silent;
  Dialling cancelled({silent.address});
  CHECK(!cancelled.next(in(std::chrono::seconds(10)), cancel.get()));
  CHECK(!cancelled.exhausted());
  CHECK_THROWS_WITH_AS(Dialling({{"node1", 9, ""}}), doctest::Contains("not a numeric"), Error);
}

TEST_CASE("near connections do not use BBR, whatever the system's own congestion control is") {
  const auto control = [](const Fd& socket) {
    char name[16] = {};
    socklen_t length = sizeof name - 1;
    CHECK(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0);
    return std::string(name);
  };
  TcpAddress address{"127.0.0.1", 0, ""};
  const Fd listener = listen_tcp(address);
  Dialling dialling({address});
  const auto found = dialling.next(in(std::chrono::seconds(5)));
  REQUIRE(found);
  const Fd accepted(::accept(listener.get(), nullptr, nullptr));
  REQUIRE(accepted);
  for (const Fd* end : {&found->socket, &accepted}) {
    const std::string before = control(*end);
    CHECK(!before.starts_with("bbr"));
    suit_distance(end->get());
    CHECK(control(*end) == before);
  }
}
