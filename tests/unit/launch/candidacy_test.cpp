#include "core/launch/hosts/candidacy.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/base/process.h"
#include "core/launch/hosts/agent_link.h"
#include "core/net/socket.h"
#include "core/net/tcp.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace candidacy_test {

using Place = Candidacy::Place;

struct Host {
  explicit Host(Seconds until_lost)
      : listener(std::make_shared<Fd>(listen_tcp(0))),
        candidacy(listener, {}, until_lost, [this](int, const Roster&) {
          Child child = spawn({.argv = {"sleep", "60"}});
          launcher = child.pid();
          return child;
        }) {}

  void end_launcher() {
    ::kill(launcher, SIGKILL);
    while (candidacy.leads()) {
      candidacy.look();
      std::this_thread::yield();
    }
  }
  Fd knock() const {
    return connect_tcp("127.0.0.1", candidacy.port(), Monotonic::now() + std::chrono::seconds(10));
  }
  std::vector<pollfd> waits(Place place) const {
    std::vector<pollfd> found;
    candidacy.add_wait(place, found);
    return found;
  }

  std::shared_ptr<Fd> listener;
  pid_t launcher = -1;
  Candidacy candidacy;
};

bool closes(const Fd& socket) {
  return wait_ready(socket.get(), POLLIN, Monotonic::now() + std::chrono::milliseconds(200));
}

TEST_CASE("candidacy: a host of no run turns away who looks for a launcher") {
  Host host(Seconds(60));
  const Fd knock = host.knock();
  CHECK(host.waits(Place::in_no_run).size() == 1);
  CHECK_FALSE(host.candidacy.knocked(Place::in_no_run));
  CHECK(closes(knock));
}

TEST_CASE("candidacy: a host of a run looks after its launcher once, and lets others wait") {
  Host host(Seconds(60));
  CHECK_FALSE(host.candidacy.knocked(Place::has_launcher));
  const Fd knock = host.knock();
  REQUIRE(host.waits(Place::has_launcher).size() == 1);
  CHECK(host.candidacy.knocked(Place::has_launcher));
  CHECK_FALSE(host.candidacy.knocked(Place::has_launcher));
  CHECK(host.waits(Place::has_launcher).empty());  // it would be ready all the time
  CHECK(host.candidacy.deadline() < TimePoint::max());
  CHECK_FALSE(host.candidacy.knocked(Place::looks_for_one));
  CHECK(host.candidacy.deadline() == TimePoint::max());
  CHECK_FALSE(closes(knock));
  CHECK(host.candidacy.knocked(Place::has_launcher));  // another launcher
}

TEST_CASE("candidacy: where the launcher lives after all, who waited is sent away") {
  Host host(Seconds(0.05));
  const Fd knock = host.knock();
  CHECK(host.candidacy.knocked(Place::has_launcher));
  std::this_thread::sleep_until(host.candidacy.deadline());
  CHECK_FALSE(host.candidacy.knocked(Place::has_launcher));
  CHECK(closes(knock));
  const Fd again = host.knock();
  CHECK(host.candidacy.knocked(Place::has_launcher));
}

TEST_CASE("candidacy: after the end of a launcher it is the turn of others") {
  Host host(Seconds(60));
  CHECK(host.candidacy.lead({}));
  CHECK(host.candidacy.leads());
  CHECK(host.waits(Place::has_launcher).empty());  // who connects is its own
  host.end_launcher();
  CHECK_FALSE(*host.listener);
  CHECK_THROWS_AS(host.knock(), Error);
  CHECK_FALSE(host.candidacy.lead({}));
  CHECK_FALSE(host.candidacy.lead({}, true));  // one that cannot lead is not tried again at once
  CHECK(host.candidacy.deadline() < Monotonic::now() + std::chrono::seconds(6));
}

TEST_CASE("candidacy: whose launcher has led may lead again if nobody else does") {
  Host host(Seconds(60));
  CHECK(host.candidacy.lead({}));
  host.candidacy.has_led();
  host.end_launcher();
  CHECK_FALSE(host.candidacy.lead({}));
  CHECK(host.candidacy.lead({}, true));
  CHECK(host.candidacy.leads());
  CHECK(host.knock());
}

TEST_CASE("candidacy: a launcher whose connections have closed may be about to end") {
  Host host(Seconds(60));
  CHECK(host.candidacy.lead({}));
  host.candidacy.has_led();
  ::kill(host.launcher, SIGKILL);  // it takes a moment
  CHECK_FALSE(host.candidacy.lead({}));
  CHECK_THROWS_AS(host.knock(), Error);  // others see at once that it is their turn
}

TEST_CASE("candidacy: a port that is opened late, and may be taken") {
  const auto listener = std::make_shared<Fd>();
  uint16_t port = 0;
  {
    const Fd other = listen_tcp(0);
    port = port_of(other.get());
    Candidacy host(listener, {"", port, ""}, Seconds(1), nullptr);
    host.open();
    CHECK(host.port() == 0);
    CHECK_FALSE(host.lead({}));
    CHECK(host.deadline() == TimePoint::max());
  }
  Candidacy host(listener, {"", port, ""}, Seconds(1), nullptr);
  host.look();
  CHECK_FALSE(*listener);
  CHECK(host.port() == 0);
  host.open();
  CHECK(*listener);
  CHECK(host.port() == port);
}

TEST_CASE("candidacy: a host without a listener never leads") {
  Candidacy host(nullptr, {}, Seconds(1), nullptr);
  CHECK(host.port() == 0);
  CHECK_FALSE(host.lead({}));
  CHECK_FALSE(host.knocked(Place::has_launcher));
}

}  // namespace candidacy_test
