// Members as processes, some of which are killed.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <sys/mman.h>

#include "tests/unit/comm/group.h"

namespace processes_test {

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kKills = 0;  // forking is not for this sanitizer
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kKills = 10;
#else
constexpr int kKills = 24;
#endif

constexpr int kMost = 4;
// For a loaded machine; the promise is 50 ms.
#if defined(__SANITIZE_ADDRESS__)
constexpr double kSoon = 3;  // of a few times, which take as long again
#else
constexpr double kSoon = 0.5;
#endif

int64_t now_ns() {
  return Monotonic::now().time_since_epoch().count();
}

// What parent and children share.
struct Board {
  std::atomic<int> listening, connected;
  std::atomic<int64_t> killed_at;
  struct Member {
    char endpoint[1024];
    std::atomic<int64_t> noticed_at;
    std::atomic<bool> went_on;
    char problem[512];
  } members[kMost];
};

struct Shared {
  Board* board;
  Shared() {
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    board = new (memory) Board{};
  }
  ~Shared() { munmap(board, sizeof(Board)); }
};

void wait_until(const std::function<bool()>& condition, const char* what) {
  const TimePoint deadline = in_seconds(20);
  while (!condition()) {
    if (Monotonic::now() > deadline) fail("gave up waiting for {}", what);
    usleep(200);
  }
}

void work(Communicator& c, std::mt19937& random) {
  static std::vector<float> data(2'000'000, 1.0f), all(4'000'000);
  const size_t count = size_t{1} << (random() % 21);
  switch (random() % 4) {
    case 0:
      c.barrier();
      break;
    case 1:
      c.broadcast(data.data(), count * 4, static_cast<int>(random()) & 1);
      break;
    case 2:
      c.all_gather(data.data(), count, all.data());
      break;
    default:
      c.all_reduce(data.data(), count, Type::f32, Op::average);
  }
}

// One member: works until the generation ends, then goes on with the survivors.
void member(Board& board, int rank, int size, int victim, bool tcp, uint32_t seed,
            size_t ballast_bytes) {
  ListenerOptions options;
  options.tcp = tcp;
  options.reach.interface = tcp ? "lo" : "";
  options.host = tcp ? "host" + std::to_string(tcp ? rank : 0) : "";
  Listener listener(kSecret, options);
  const std::string text = listener.endpoint().dump();
  std::strncpy(board.members[rank].endpoint, text.c_str(), sizeof board.members[rank].endpoint - 1);
  ++board.listening;
  wait_until([&] { return board.listening == size; }, "the listeners");
  std::vector<nlohmann::json> endpoints;
  for (int i = 0; i < size; ++i) {
    endpoints.push_back(nlohmann::json::parse(board.members[i].endpoint));
  }
  std::vector<char> ballast(rank == victim ? ballast_bytes : 0, 1);
  GroupOptions group{1, rank, endpoints, in_seconds(20), nullptr};
  std::mt19937 random(seed);
  try {
    const auto c = connect(listener, group);
    ++board.connected;
    for (;;) work(*c, random);
  } catch (const Aborted&) {
    board.members[rank].noticed_at = now_ns();
  }
  group.generation = 2;
  group.endpoints.erase(group.endpoints.begin() + victim);
  group.rank -= rank > victim;
  const auto c = connect(listener, group);
  int ones = 1;
  c->all_reduce(&ones, 1, Type::i32, Op::sum);
  board.members[rank].went_on = ones == size - 1;
}

// Kills a member at a random moment; the times in seconds until the others noticed.
std::vector<double> kill_one(int size, bool tcp, uint32_t seed, size_t ballast_bytes) {
  Shared shared;
  Board& board = *shared.board;
  std::mt19937 random(seed);
  const int victim = static_cast<int>(random() % static_cast<uint32_t>(size));
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        member(board, rank, size, victim, tcp, seed, ballast_bytes);
      } catch (const std::exception& e) {
        std::strncpy(board.members[rank].problem, e.what(), sizeof board.members[rank].problem - 1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  wait_until([&] { return board.connected == size; }, "the group");
  usleep(random() % 15'000);
  board.killed_at = now_ns();
  kill(children[static_cast<size_t>(victim)], SIGKILL);
  std::vector<double> noticed;
  const TimePoint deadline = in_seconds(20);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = children[static_cast<size_t>(rank)];
    while (waitpid(child, nullptr, WNOHANG) == 0) {
      if (Monotonic::now() > deadline) {
        kill(child, SIGKILL);
        FAIL_CHECK("rank " << rank << " hung, victim " << victim << ", seed " << seed);
      }
      usleep(200);
    }
    if (rank == victim) continue;
    const auto& survivor = board.members[rank];
    CAPTURE(seed);
    CAPTURE(rank);
    CHECK(std::string(survivor.problem) == "");
    CHECK(survivor.went_on);
    noticed.push_back(static_cast<double>(survivor.noticed_at - board.killed_at) * 1e-9);
  }
  return noticed;
}

void kill_many(int size, bool tcp, int times, size_t ballast_bytes, const char* what) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    const auto noticed = kill_one(size, tcp, static_cast<uint32_t>(i), ballast_bytes);
    all.insert(all.end(), noticed.begin(), noticed.end());
  }
  if (all.empty()) return;
  std::sort(all.begin(), all.end());
  MESSAGE(std::string(what) << ": a killed member is noticed after " << all[all.size() / 2] * 1e3
                            << " ms (median), " << all.back() * 1e3 << " ms (worst of "
                            << all.size() << ")");
  CHECK(all[all.size() / 2] < kSoon);
}

}  // namespace

TEST_CASE("survivors of kill -9 notice at once and go on in a new generation") {
  kill_many(3, false, kKills, 0, "shared memory, 3 members");
  kill_many(2, false, kKills / 2, 0, "shared memory, 2 members");
  kill_many(3, true, kKills, 0, "TCP, 3 members");
}

TEST_CASE("a member with much memory is noticed as fast") {
  kill_many(3, false, kKills / 8, size_t{512} << 20, "shared memory, 512 MiB in the killed one");
}

}  // namespace processes_test
