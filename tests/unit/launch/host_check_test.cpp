#include "core/launch/hosts/host_check.h"

#include <csignal>
#include <doctest/doctest.h>

#include "core/base/crypto.h"
#include "core/base/error.h"

using namespace adaptdl;
using namespace adaptdl::launch;

TEST_CASE("host check: an all-reduce sends 2 (n - 1) / n of the data") {
  CHECK(all_reduce_bound_s(100e6, 2, 1e9) == doctest::Approx(0.1));
  CHECK(all_reduce_bound_s(100e6, 4, 1e9) == doctest::Approx(0.15));
}

TEST_CASE("host check: the slowest link, and whether all reach all") {
  HostCheck check{.problems = {"", ""}, .links = {{.from = 0, .to = 1}, {.from = 1, .to = 0}}};
  CHECK(slowest(check) == nullptr);
  CHECK(!all_reach(check));
  for (CheckedLink& link : check.links) link.measure = LinkMeasure();
  CHECK(all_reach(check));
  check.links[0].bytes_per_s = 5;
  CHECK(slowest(check) == &check.links[0]);
  check.links[1].bytes_per_s = 4;
  CHECK(slowest(check) == &check.links[1]);
  check.problems[1] = "ssh: refused";
  CHECK(!all_reach(check));
}

TEST_CASE("link probe: who has the key is measured, others are told why not") {
  const TlsKey key(random_bytes(32)), other(random_bytes(32));
  const ProbeServer server(key, {.interface = "lo"});
  REQUIRE(server.addresses().size() == 1);
  for (int i = 0; i < 2; ++i) {
    const LinkMeasure measure = measure_link(server.addresses(), key, Seconds(0.5), 2 * i + 1);
    CHECK(measure.addresses.size() == 1);
    CHECK(measure.addresses.front().interface == "lo");
    CHECK(measure.latency_s > 0);
    CHECK(measure.bytes_per_s > 1e6);
    CHECK_THROWS_WITH_AS(measure_link(server.addresses(), other, Seconds(0.05)),
                         doctest::Contains("127.0.0.1 port"), Error);
  }
}

TEST_CASE("host check: a probe that does not run is told with its exit code, at once") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> ssh{"sh", "-c", "case \"$*\" in *__probe*) exit 126;; esac"};
  const TimePoint begun = Monotonic::now();
  const HostCheck check =
      check_hosts({.hosts = {"192.0.2.1"}, .ssh = ssh}, [](const std::string&) {});
  REQUIRE(check.problems.size() == 1);
  CHECK(check.problems.front() == "adaptdl does not run there: exit code 126");
  CHECK(Monotonic::now() - begun < std::chrono::seconds(20));
  std::signal(SIGPIPE, before);
}
