#include "core/launch/hosts/ssh_hosts.h"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <filesystem>
#include <memory>
#include <mutex>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/launch/hosts/agent.h"
#include "core/launch/hosts/program_print.h"
#include "core/launch/hosts/ssh_client.h"
#include "tests/support/soon.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace ssh_hosts_test {

// A host whose ssh runs everything here, with a home of its own, in which `there` has the program,
// and `agent` is what runs in place of the agent.
struct FakeHost {
  FakeHost() {
    make_directories(folder.file("there"));
    write_file_atomic(folder.file("ssh"), "here=" + folder.path() + R"(
export HOME=$here XDG_CACHE_HOME=$here/cache
for word; do :; done
word=$(printf %s "$word" | sed -e "s|$here/program|$here/there/program|g" \
  -e "s|exec \"\$d/adaptdl\"|exec sh \"$here/agent\"|")
eval "$word"
)");
    write_file_atomic(program(), "one");
  }

  std::string program() const { return folder.file("program"); }
  std::string copy() const { return folder.file("there/program"); }
  std::string read(const std::string& name) const {
    return path_exists(folder.file(name)) ? read_file(folder.file(name), 1000) : "";
  }

  SshHostsOptions options() const {
    return {
        .hosts = {{"host"}}, .ssh = {"sh", folder.file("ssh")}, .program = program(), .key = "key"};
  }

  std::unique_ptr<SshHosts> prepare() {
    said.clear();
    return std::make_unique<SshHosts>(options(), [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      said += line + "\n";
    });
  }

  TemporaryDirectory folder;
  std::mutex mutex;
  std::string said;
};

}  // namespace ssh_hosts_test

using namespace ssh_hosts_test;

TEST_CASE("ssh hosts: names and their replicas") {
  const auto hosts = parse_ssh_hosts("node1:4,me@node2,10.0.0.3:4096", 2);
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].name == "node1");
  CHECK(hosts[0].slots == 4);
  CHECK(hosts[1].name == "me@node2");
  CHECK(hosts[1].slots == 2);
  CHECK(hosts[2].slots == 4096);
  const auto apart = parse_ssh_hosts(" node1:4, me@node2\t", 2);
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].name == "node1");
  CHECK(apart[1].name == "me@node2");
  const auto six = parse_ssh_hosts("[fd00::1]:3,me@[fd00::2]", 2);
  REQUIRE(six.size() == 2);
  CHECK(six[0].name == "fd00::1");
  CHECK(six[0].slots == 3);
  CHECK(six[1].name == "me@fd00::2");
  CHECK(six[1].slots == 2);
  for (const char* wrong :
       {"",       ",",       "a,",       "a, ",  "a:",         "a:0",        "a:-1",
        "a:4097", "a:b",     "a:1:2",    ":1",   "a,a",        "a:1,b,a:2",  "-oProxyCommand=x",
        "b,-v:1", "fd00::1", "[fd00::1", "[]:1", "[fd00::1]3", "[fd00::1]:", "[-v]:1"}) {
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

TEST_CASE("ssh hosts: a copied program is renewed, another one is left alone") {
  FakeHost host;
  const auto ready = [&] { return host.prepare()->ready() == 1; };
  CHECK(ready());
  CHECK(host.read("there/program") == "one");
  CHECK(host.said.find("copying " + host.program()) != std::string::npos);

  CHECK(ready());
  CHECK(host.said.empty());

  write_file_atomic(host.program(), "two");
  CHECK(ready());
  CHECK(host.read("there/program") == "two");

  write_file_atomic(host.copy(), "own");
  CHECK_FALSE(ready());
  CHECK(host.read("there/program") == "own");
  CHECK(host.said.find("adaptdl has not copied it there. Replace it, or remove it: `sh ") !=
        std::string::npos);
  std::filesystem::remove(host.copy());
  CHECK(ready());
}

TEST_CASE(
    "ssh hosts: one that was in the run may fail as long as it likes, one that was not may not") {
  FakeHost host;
  write_file_atomic(host.folder.file("agent"),
                    "echo life >> $HOME/lives; cat $HOME/says; exit 127");
  const auto lives = [&] { return host.read("lives").size() / std::string("life\n").size(); };
  std::atomic<int> lost = 0;

  write_file_atomic(host.folder.file("says"), "no LibTorch\n");
  auto hosts = host.prepare();
  hosts->start(1, [&] { ++lost; });
  CHECK(adaptdl::testing::soon([&] { return lost == 1; }));
  hosts.reset();
  CHECK(lives() == 1);

  write_file_atomic(host.folder.file("says"), std::string(kJoinedRun) + " here port 1\n");
  hosts = host.prepare();
  std::filesystem::remove_all(host.folder.file("cache"));
  hosts->start(1, [&] { ++lost; });
  CHECK(adaptdl::testing::soon([&] { return lives() >= 3; }));
  CHECK(path_exists(host.folder.file("cache")));  // it was prepared again
  hosts.reset();
  CHECK(lost == 1);
}

TEST_CASE("ssh hosts: agents start in the folder of the command, with some of its variables") {
  FakeHost host;
  write_file_atomic(host.folder.file("agent"),
                    "echo \"$PWD, $NCCL_A, $NCCL_B\" > $HOME/place; mv $HOME/place $HOME/seen");
  SshHostsOptions options = host.options();
  options.directory = host.folder.file("it's");
  options.environment = {{"NCCL_A", "it's $HOME"}, {"NCCL_B", "ours"}};
  options.ssh.insert(options.ssh.begin(), {"env", "NCCL_B=the host's"});
  make_directories(options.directory);
  SshHosts hosts(options, [](const std::string&) {});
  hosts.start(0, [] {});
  CHECK(adaptdl::testing::soon([&] { return !host.read("seen").empty(); }));
  CHECK(host.read("seen") == options.directory + ", it's $HOME, the host's\n");
}

TEST_CASE("ssh hosts: programs of one size that differ at the front are told apart") {
  const TemporaryDirectory folder;
  const std::string end(kPrintedTail, 'x'), program = folder.file("program");
  const auto print_of = [&](const std::string& content) {
    write_file_atomic(program, content);
    return program_print(program);
  };
  const ProgramPrint print = print_of("a" + end);
  CHECK(print.bytes == kPrintedTail + 1);
  CHECK(print == print_of("a" + end));
  CHECK_FALSE(print == print_of("b" + end));
  // The index of an archive is at its end.
  CHECK(print_of("PK\x03\x04 a" + end) == print_of("PK\x03\x04 b" + end));
  CHECK(print_of("PK\x03\x04").bytes == 4);
  CHECK(print_of("").bytes == 0);
}
