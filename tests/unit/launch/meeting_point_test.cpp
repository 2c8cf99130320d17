#include "core/launch/hosts/meeting_point.h"

#include <doctest/doctest.h>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::launch;

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
  CHECK_FALSE(is_this_machine("192.0.2.1"));  // for documentation (RFC 5737): nobody's
  CHECK_FALSE(is_this_machine("no-such-host.invalid"));
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
