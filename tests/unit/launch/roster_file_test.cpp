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

std::optional<LauncherAddress> ask(uint16_t port, Seconds patience, int* told = nullptr) {
  return leader_among({{"127.0.0.1", port}}, kKey, patience, [told](const std::string&) {
    if (told != nullptr) ++*told;
  });
}

TEST_CASE("roster file: the other hosts that may lead, for a host that comes again") {
  const TemporaryDirectory folder("roster-file");
  const std::string place = join_path(folder.path(), "checkpoints");
  const RosterFile file(place);
  CHECK(file.others().empty());
  Roster roster{.number = 3,
                .run_id = "r",
                .size = 4,
                .hosts = {{"1", "192.0.2.1", 1000}, {"2", "192.0.2.2", 0}, {"3", "127.0.0.1", 7}}};
  file.write(roster);
  REQUIRE(file.others().size() == 1);  // one never leads, and one is this host
  CHECK(file.others()[0].host == "192.0.2.1");
  CHECK(file.others()[0].port == 1000);
  CHECK(file.others_may_go_on());
  file.write({.number = 4, .run_id = "r", .size = 2, .hosts = {{"1", "192.0.2.1", 1000}}});
  CHECK_FALSE(file.others_may_go_on());
  roster.shared = true;  // then the folder itself says who leads
  file.write(roster);
  CHECK(file.others().empty());
  roster.shared = false;
  file.write(roster);
  write_file_atomic(join_path(place, "roster.json"), "{\"number\": []}");
  CHECK(file.others().empty());
  file.forget();
  CHECK_FALSE(path_exists(join_path(place, "roster.json")));
}

TEST_CASE("roster file: who listens and has the key leads") {
  const Fd listener = listen_tcp(0);
  std::thread leader([&] {
    wait_ready(listener.get(), POLLIN, Monotonic::now() + std::chrono::seconds(60));
    Stream stream(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
                  kKey, TlsSide::server);
    stream.shake_hands(Monotonic::now() + std::chrono::seconds(60));
  });
  const auto found = ask(port_of(listener.get()), Seconds(60));
  leader.join();
  REQUIRE(found.has_value());
  CHECK(found->port == port_of(listener.get()));
}

TEST_CASE("roster file: hosts that do not lead, or are gone, are waited for") {
  int told = 0;
  CHECK_FALSE(ask(adaptdl::testing::ClosedPort().port, Seconds(0), &told).has_value());
  const Fd silent = listen_tcp(0);
  CHECK_FALSE(ask(port_of(silent.get()), Seconds(0), &told).has_value());
  CHECK(told == 0);
  CHECK_FALSE(ask(adaptdl::testing::ClosedPort().port, Seconds(0.7), &told).has_value());
  CHECK(told == 1);
}

}  // namespace roster_file_test
