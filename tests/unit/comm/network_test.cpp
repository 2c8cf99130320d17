// Two hosts of two members each, made of network namespaces with two cables between them. Needs
// root and iproute2; without, the loopback tests elsewhere have to do.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>

#include "tests/support/soon.h"
#include "tests/unit/comm/group.h"

namespace network_test {

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

using adaptdl::testing::soon;

struct Board {
  std::atomic<int> apart, wired, up, listening, good;
  struct Member {
    char endpoint[2048];
    char links[2048];
    char problem[512];
  } members[4];
};

bool sh(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

void member(Board& board, int rank, const std::string& interface, int links) {
  ListenerOptions options;
  options.tcp = true;
  options.reach.interface = interface;
  Listener listener(kSecret, options);
  auto& mine = board.members[rank];
  std::strncpy(mine.endpoint, listener.endpoint().dump().c_str(), sizeof mine.endpoint - 1);
  ++board.listening;
  if (!soon([&] { return board.listening == 4; })) fail("the others do not listen");
  GroupOptions options_of_group;
  options_of_group.generation = 1;
  options_of_group.rank = rank;
  for (auto& other : board.members) {
    options_of_group.endpoints.push_back(nlohmann::json::parse(other.endpoint));
  }
  options_of_group.deadline = in_seconds(15);
  options_of_group.links = links;
  const auto c = connect(listener, options_of_group);
  std::strncpy(mine.links, c->describe_links().c_str(), sizeof mine.links - 1);
  std::vector<float> data(500'000, static_cast<float>(rank));
  for (int i = 0; i < 3; ++i) c->all_reduce(data.data(), data.size(), Type::f32, Op::average);
  c->broadcast(data.data(), data.size() * 4, 3);
  const bool right = data[0] == 1.5f && data.back() == 1.5f &&
                     all_gather_values(*c, rank) == std::vector<int>{0, 1, 2, 3};
  if (right) ++board.good;
}

// A host: a namespace, the ends of the cables, two members.
void host(Board& board, int number, const std::string& interface, int links) {
  if (unshare(CLONE_NEWNET) != 0) _exit(1);
  ++board.apart;
  if (!soon([&] { return board.wired == 1; })) _exit(1);
  const std::string letter = number == 0 ? "a" : "b";
  for (const std::string& cable : {std::string("0"), std::string("1")}) {
    sh("ip addr add 10.77." + cable + "." + std::to_string(number + 1) + "/24 dev " + letter +
       cable);
    sh("ip link set " + letter + cable + " up");
  }
  sh("ip link set lo up");
  ++board.up;
  if (!soon([&] { return board.up == 2; })) _exit(1);  // a cable of one end carries nothing
  std::vector<pid_t> children;
  for (int rank = 2 * number; rank < 2 * number + 2; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        member(board, rank, interface.empty() ? "" : letter + interface, links);
      } catch (const std::exception& e) {
        std::strncpy(board.members[rank].problem, e.what(), sizeof board.members[rank].problem - 1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  _exit(0);
}

// In a namespace of its own, so that nothing of this machine is touched.
int coordinate(Board& board, const std::string& interface, int links) {
  if (unshare(CLONE_NEWNET) != 0 || !sh("ip link show lo >/dev/null")) return 2;
  if (!sh("ip link add a0 type veth peer name b0")) return 2;
  if (!sh("ip link add a1 type veth peer name b1")) return 2;
  pid_t hosts[2];
  for (int number = 0; number < 2; ++number) {
    hosts[number] = fork();
    if (hosts[number] == 0) host(board, number, interface, links);
  }
  bool wired = soon([&] { return board.apart == 2; });
  for (int number = 0; number < 2; ++number) {
    const std::string letter = number == 0 ? "a" : "b";
    for (const std::string cable : {"0", "1"}) {
      wired =
          sh("ip link set " + letter + cable + " netns " + std::to_string(hosts[number])) && wired;
    }
  }
  board.wired = wired ? 1 : 2;
  for (const pid_t child : hosts) waitpid(child, nullptr, 0);
  return wired ? 0 : 1;
}

}  // namespace

TEST_CASE("members on two hosts find the interfaces and say which") {
#if defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: forks");
  return;
#endif
  const struct {
    std::string interface;
    int links;
    std::vector<const char*> used;
  } cases[] = {{"", 1, {"via a"}},
               {"1", 1, {"via a1"}},
               {"", 2, {"via a0", "via a1"}},
               {"1", 2, {"via a1, tcp 10.77.1.1:"}}};
  for (const auto& [interface, number_of_links, used] : cases) {
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    Board& board = *new (memory) Board{};
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(coordinate(board, interface, number_of_links));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
      MESSAGE("skipped: needs root and iproute2 to make network namespaces");
      munmap(memory, sizeof(Board));
      return;
    }
    CHECK(status == 0);
    for (const auto& other : board.members) CHECK(std::string(other.problem) == "");
    CHECK(board.good == 4);
    const std::string links = board.members[0].links;
    INFO(links);
    CHECK(links.find("rank 1: shared memory") != links.npos);
    CHECK(links.find("rank 2: tcp 10.77.") != links.npos);
    for (const char* way : used) CHECK(links.find(way) != links.npos);
    munmap(memory, sizeof(Board));
  }
}

}  // namespace network_test
