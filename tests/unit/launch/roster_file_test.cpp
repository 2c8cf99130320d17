#include "core/launch/hosts/roster_file.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/launch/hosts/agent_link.h"
#include "core/net/stream.h"
#include "core/net/tcp.h"
#include "tests/support/closed_port.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace roster_file_test {

const TlsKey kKey = agent_key("a secret of this run", "run");

Search ask(uint16_t port, LeaderPatience patience, int* told = nullptr) {
  return leader_among({{"127.0.0.1", port}}, kKey, patience, [told](const std::string&) {
    if (told != nullptr) ++*told;
  });
}

TEST_CASE("roster file: the other hosts that may lead, for a host that comes again") {
  const TemporaryDirectory folder("roster-file");
  const std::string place = join_path(folder.path(), "checkpoints");
  const RosterFile file(place);
  CHECK_FALSE(file.read().has_value());
  file.write({.number = 3,
              .run_id = "r",
              .size = 4,
              .hosts = {{"1", "192.0.2.1", 1000}, {"2", "192.0.2.2", 0}, {"3", "127.0.0.1", 7}}});
  const auto known = file.read();
  REQUIRE(known.has_value());
  const auto others = others_of(*known);
  REQUIRE(others.size() == 1);  // one never leads, and one is this host
  CHECK(others[0].host == "192.0.2.1");
  CHECK(others[0].port == 1000);
  write_file_atomic(join_path(place, "roster.json"), "{\"number\": []}");
  CHECK_FALSE(file.read().has_value());
  file.forget();
  CHECK_FALSE(path_exists(join_path(place, "roster.json")));
}

TEST_CASE("roster file: a host waits for those that may go on without it") {
  const Seconds election{30};
  Roster roster{.size = 3,
                .hosts = {{"1", "192.0.2.1", 1000}, {"2", "192.0.2.2", 0}, {"3", "127.0.0.1", 7}},
                .led_here = true};
  CHECK(patience_with(roster, election).for_unreachable == election);
  REQUIRE(may_have_gone_on(roster).hosts.size() == 1);  // one never leads, and one is this host
  CHECK(may_have_gone_on(roster).hosts[0].id == "1");
  CHECK(may_have_gone_on(roster, {{"192.0.2.1", 1000}}).hosts.empty());
  roster.size = 2;  // the other one alone is no majority
  CHECK(patience_with(roster, election).for_unreachable == Seconds(0));
  CHECK(patience_with(roster, election).for_silent == Seconds(0));
  roster.led_here = false;  // but a launcher goes on with half of them
  CHECK(patience_with(roster, election).for_unreachable == election);
  CHECK(may_have_gone_on(roster).hosts.size() == 1);
  roster.shared = true;  // whoever gets the folder's lock
  CHECK(patience_with(roster, election).for_silent == election);
  CHECK(patience_with(roster, election).for_unreachable == Seconds(0));
  CHECK(may_have_gone_on(roster).hosts.empty());
}

TEST_CASE("roster file: who listens and has the key leads") {
  const Fd listener = listen_tcp(0);
  std::thread leader([&] {
    wait_ready(listener.get(), POLLIN, Monotonic::now() + std::chrono::seconds(60));
    Stream stream(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
                  kKey, TlsSide::server);
    stream.shake_hands(Monotonic::now() + std::chrono::seconds(60));
  });
  const auto found = ask(port_of(listener.get()), {.for_silent = Seconds(60)}).leader;
  leader.join();
  REQUIRE(found.has_value());
  CHECK(found->port == port_of(listener.get()));
}

TEST_CASE("roster file: hosts that do not lead, or are gone, are waited for") {
  int told = 0;
  const adaptdl::testing::ClosedPort closed;
  const auto gone = [&](uint16_t port, LeaderPatience patience) {
    const Search search = ask(port, patience, &told);
    CHECK_FALSE(search.leader.has_value());
    return search.gone.size() == 1;
  };
  CHECK(gone(closed.port, {}));
  const Fd silent = listen_tcp(0);
  CHECK_FALSE(gone(port_of(silent.get()), {}));
  CHECK(gone(closed.port, {.for_silent = Seconds(60)}));
  CHECK(told == 0);
  CHECK(gone(closed.port, {.for_unreachable = Seconds(60), .for_none = Seconds(0.7)}));
  CHECK(told == 1);
  CHECK_FALSE(gone(port_of(silent.get()), {.for_silent = Seconds(1.2)}));
  CHECK(told == 2);
}

TEST_CASE("a host is gone once nothing has been there for a while, whatever was there before") {
  const LauncherAddress one{"10.0.0.1", 1}, other{"10.0.0.1", 2};
  GoneHosts at_once(Seconds(0)), later;
  for (GoneHosts* hosts : {&at_once, &later}) {
    CHECK(!hosts->gone(one));
    hosts->note(one, Answer::silent);
    CHECK(!hosts->gone(one));
    hosts->note(one, Answer::none);
  }
  CHECK(at_once.gone(one));
  CHECK(!at_once.gone(other));
  CHECK(!later.gone(one));
  at_once.note(one, Answer::unreachable);
  CHECK(!at_once.gone(one));
}

}  // namespace roster_file_test
