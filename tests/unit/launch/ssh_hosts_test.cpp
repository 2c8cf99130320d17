#include "core/launch/hosts/ssh_hosts.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/launch/hosts/ssh_client.h"

using namespace adaptdl;
using namespace adaptdl::launch;

TEST_CASE("ssh hosts: names and their replicas") {
  const auto hosts = parse_ssh_hosts("node1:4,me@node2,10.0.0.3:4096", 2);
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].name == "node1");
  CHECK(hosts[0].slots == 4);
  CHECK(hosts[1].name == "me@node2");
  CHECK(hosts[1].slots == 2);
  CHECK(hosts[2].slots == 4096);
  const auto six = parse_ssh_hosts("[fd00::1]:3,me@[fd00::2]", 2);
  REQUIRE(six.size() == 2);
  CHECK(six[0].name == "fd00::1");
  CHECK(six[0].slots == 3);
  CHECK(six[1].name == "me@fd00::2");
  CHECK(six[1].slots == 2);
  for (const char* wrong : {"",
                            ",",
                            "a,",
                            "a:",
                            "a:0",
                            "a:-1",
                            "a:4097",
                            "a:b",
                            "a:1:2",
                            ":1",
                            "a,a",
                            "a:1,b,a:2",
                            "-oProxyCommand=x",
                            "b,-v:1",
                            "fd00::1",
                            "[fd00::1",
                            "[]:1",
                            "[fd00::1]3",
                            "[fd00::1]:",
                            "[-v]:1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_ssh_hosts(wrong, 1), UsageError);
  }
}

TEST_CASE("ssh hosts: a shell reads a quoted word as it was") {
  for (const std::string word : {"", "plain", "two words", "it's", "'", "''", "$HOME `x` \\ \" !",
                                 "a\nb", "--flag=[{x: 1}]", "\xc3\xa4*?"}) {
    CAPTURE(word);
    const CapturedRun run =
        run_and_capture({.argv = {"sh", "-c", "printf %s " + shell_quoted(word)}}, Seconds(10));
    CHECK(run.output == word);
  }
}
