// What the transport over NCCL does with NCCL's answers, which are scripted (scripted_nccl.h).

#include <array>
#include <cstring>
#include <latch>
#include <numeric>

#include "runtime/comm/nccl/choice.h"
#include "runtime/comm/nccl/nccl_communicator.h"
#include "tests/unit/comm/group.h"
#include "tests/unit/comm/scripted_nccl.h"

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

constexpr size_t kCount = 1000;

struct Member {
  ScriptedDevice device;
  std::unique_ptr<nccl::Connector> connector =
      std::make_unique<nccl::Connector>(ScriptedNccl::library(), device);
};

// Groups of the same processes, generation after generation.
class Members {
 public:
  explicit Members(int size, bool hosts = false)
      : listeners_(hosts ? many_hosts(size) : one_host(size)) {
    ScriptedNccl::get().reset();
    for (int i = 0; i < size; ++i) all_.push_back(std::make_unique<Member>());
  }
  ~Members() { CHECK(ScriptedNccl::get().made == ScriptedNccl::get().aborted); }

  std::unique_ptr<Communicator> connect(int rank, const AbortSignal* abort = nullptr,
                                        double patience_s = 20) {
    const auto at = static_cast<size_t>(rank);
    GroupOptions options{.generation = generation,
                         .rank = rank,
                         .endpoints = listeners_.endpoints,
                         .deadline = in_seconds(20),
                         .device = &all_[at]->device};
    return all_[at]->connector->connect(comm::connect(*listeners_.all[at], options), abort,
                                        options.deadline, patience_s);
  }
  void run(const std::function<void(int, Communicator&, ScriptedDevice&)>& body) {
    in_threads(static_cast<int>(all_.size()), [&](int rank) {
      const auto group = connect(rank);
      body(rank, *group, device(rank));
    });
    ++generation;
  }
  ScriptedDevice& device(int rank) { return all_[static_cast<size_t>(rank)]->device; }

  uint64_t generation = 1;

 private:
  Listeners listeners_;
  std::vector<std::unique_ptr<Member>> all_;
};

std::vector<float> numbers(int rank) {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), static_cast<float>(100 * rank));
  return values;
}

void sum(Communicator& group, std::vector<float>& values, Op op = Op::sum) {
  group.all_reduce(values.data(), values.size(), Type::f32, op, Memory::device);
}

std::string reason_of_sum(Communicator& group) {
  std::vector<float> values(kCount);
  try {
    sum(group, values);
  } catch (const Aborted& aborted) {
    return aborted.what();
  }
  return "it succeeded";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("device memory is summed and averaged by NCCL, host memory is not") {
  for (const bool hosts : {false, true}) {
    Members members(3, hosts);
    ScriptedNccl::get().slow_init = 5;
    members.run([&](int rank, Communicator& group, ScriptedDevice& device) {
      std::vector<float> values = numbers(rank);
      sum(group, values);
      CHECK(values[7] == 7 * 3 + 300);
      values = numbers(rank);
      sum(group, values, Op::average);
      CHECK(values[7] == 107);
      CHECK(device.staged == 0);
      values = numbers(rank);
      group.all_reduce(values.data(), values.size(), Type::f32, Op::sum);
      CHECK(values[7] == 7 * 3 + 300);
      CHECK(all_gather_values(group, rank) == std::vector{0, 1, 2});
      CHECK(group.size() == 3);
      CHECK(group.hosts() == (hosts ? 3 : 1));
      CHECK(device.rooms == 1);  // before NCCL has connected
      CHECK(contains(group.describe_links(), "NCCL 2.28.9"));
      CHECK_FALSE(group.waiting_since());
    });
    CHECK(ScriptedNccl::get().calls == 6);
  }
}

TEST_CASE("a maximum goes through host memory, because of NaN") {
  Members members(2);
  members.run([&](int rank, Communicator& group, ScriptedDevice& device) {
    std::vector<float> values = numbers(rank);
    sum(group, values, Op::max);
    CHECK(values[7] == 107);
    CHECK(device.staged == 1);
  });
  CHECK(ScriptedNccl::get().calls == 0);
}

TEST_CASE("a broadcast of device memory reaches those who keep it, in pieces") {
  Members members(3);
  const size_t bytes = (100 << 20) + 3;
  members.run([&](int rank, Communicator& group, ScriptedDevice&) {
    std::vector<char> values(bytes, static_cast<char>(rank));
    const bool keep = rank != 2;
    group.broadcast(keep ? values.data() : nullptr, bytes, 1, keep, Memory::device);
    CHECK(values.front() == (keep ? 1 : 2));
    CHECK(std::memcmp(&values[0], &values[1], bytes - 1) == 0);  // all are the same
    group.broadcast(values.data(), 0, 0, true, Memory::device);
    CHECK_THROWS_AS(group.broadcast(values.data(), 1, 3, true, Memory::device), Error);
  });
  CHECK(ScriptedNccl::get().calls == 6);
}

TEST_CASE("collectives that NCCL begins in the background") {
  Members members(2);
  ScriptedNccl::get().starts_slowly = true;
  members.run([&](int rank, Communicator& group, ScriptedDevice&) {
    for (int i = 0; i < 100; ++i) {
      std::vector<float> values = numbers(rank);
      sum(group, values);
      REQUIRE(values[7] == 114);
    }
  });
}

TEST_CASE("the same processes connect generation after generation") {
  Members members(2);
  for (int i = 0; i < 5; ++i) {
    members.run([&](int rank, Communicator& group, ScriptedDevice&) {
      std::vector<float> values = numbers(rank);
      sum(group, values);
      REQUIRE(values[7] == 114);
    });
  }
  CHECK(ScriptedNccl::get().made == 10);
}

TEST_CASE("abort ends a collective that NCCL never ends, and frees the device") {
  Members members(3);
  ScriptedNccl::get().hangs = true;
  members.run([&](int rank, Communicator& group, ScriptedDevice& device) {
    std::jthread aborter;
    if (rank == 1) {
      aborter = std::jthread([&group] {
        while (!group.waiting_since()) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        group.abort("enough");
      });
    }
    CHECK(contains(reason_of_sum(group), "enough"));
    CHECK(device.done());
    CHECK(contains(reason_of_sum(group), "enough"));
    CHECK(group.aborted());
  });
}

TEST_CASE("a member that dies while the others are in NCCL ends the generation") {
  Members members(3);
  ScriptedNccl::get().hangs = true;
  members.run([&](int rank, Communicator& group, ScriptedDevice& device) {
    if (rank == 2) {
      device.broken = true;  // what it does then: it tells, and ends
      std::vector<float> values(kCount);
      CHECK_THROWS_WITH(sum(group, values), "the device has fallen off the bus");
      device.broken = false;
      return;
    }
    CHECK(contains(reason_of_sum(group), "the device has fallen off the bus"));
  });
}

TEST_CASE("a member may end while others receive; their next collective ends before NCCL") {
  for (const bool barrier : {false, true}) {
    Members members(3);
    std::latch finished(2);
    in_threads(3, [&](int rank) {
      auto group = members.connect(rank);
      std::vector<float> values = numbers(rank);
      sum(*group, values);
      if (rank == 1) {
        group.reset();  // waits for those who still need it
        return;
      }
      CHECK(values[7] == 7 * 3 + 300);
      finished.arrive_and_wait();
      if (barrier) {
        CHECK_THROWS_AS(group->barrier(), Aborted);
      } else {
        CHECK(reason_of_sum(*group) != "it succeeded");
      }
    });
    CHECK(ScriptedNccl::get().calls == 3);
  }
}

#if !defined(__SANITIZE_THREAD__)  // forking is not for this sanitizer
TEST_CASE("a member that is killed while the others are in NCCL ends the generation") {
  ScriptedNccl& script = ScriptedNccl::get();
  script.reset();
  script.connects_alone = true;  // each process has its own
  script.hangs = true;
  int pipes[2][2];
  for (auto& ends : pipes) REQUIRE(pipe(ends) == 0);
  const auto member = [&](int rank, const std::function<void(Communicator&)>& body) {
    Listener listener(kSecret);
    std::array<std::array<char, 1024>, 2> texts{};
    const std::string own = listener.endpoint().dump();
    own.copy(texts[rank].data(), texts[rank].size() - 1);
    REQUIRE(write(pipes[1 - rank][1], texts[rank].data(), 1024) == 1024);
    REQUIRE(read(pipes[rank][0], texts[1 - rank].data(), 1024) == 1024);
    ScriptedDevice device;
    nccl::Connector connector(ScriptedNccl::library(), device);
    GroupOptions options{.generation = 1, .rank = rank, .deadline = in_seconds(20)};
    for (const auto& text : texts) options.endpoints.push_back(nlohmann::json::parse(text.data()));
    const auto group =
        connector.connect(comm::connect(listener, options), nullptr, options.deadline);
    body(*group);
    CHECK(device.done());
  };
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      member(1, [](Communicator& group) { reason_of_sum(group); });
    } catch (const std::exception&) {
    }
    _exit(0);
  }
  member(0, [&](Communicator& group) {
    std::jthread killer([&] {
      while (script.calls == 0) std::this_thread::yield();  // all have come to it
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      kill(child, SIGKILL);
    });
    CHECK(contains(reason_of_sum(group), "rank 1 is gone"));
  });
  waitpid(child, nullptr, 0);
  for (auto& ends : pipes) {
    for (const int end : ends) close(end);
  }
  CHECK(script.made == script.aborted);
}
#endif

TEST_CASE("an error that NCCL tells later ends the generation with its words, for all") {
  Members members(3);
  ScriptedNccl::get().hangs = true;
  ScriptedNccl::get().error_at = 1;
  members.run([&](int, Communicator& group, ScriptedDevice&) {
    CHECK(contains(reason_of_sum(group), "NCCL on rank 1: remote process exited: by the script"));
  });
}

TEST_CASE("where NCCL fails in its first collective, the next generation does without") {
  Members members(2);
  ScriptedNccl::get().hangs = true;
  ScriptedNccl::get().error_at = 1;
  members.run([&](int, Communicator& group, ScriptedDevice&) {
    CHECK(contains(reason_of_sum(group), "NCCL on rank 1"));
  });
  members.run([&](int rank, Communicator& group, ScriptedDevice& device) {
    std::vector<float> values = numbers(rank);
    sum(group, values);
    CHECK(values[7] == 114);
    CHECK(device.staged == 1);
  });
}

TEST_CASE("an error after collectives that went well, as when a member dies, is not for good") {
  Members members(2);
  members.run([&](int rank, Communicator& group, ScriptedDevice&) {
    std::vector<float> values = numbers(rank);
    sum(group, values);
    group.barrier();
    ScriptedNccl::get().hangs = true;
    ScriptedNccl::get().error_at = 1;
    CHECK(contains(reason_of_sum(group), "NCCL on rank 1"));
  });
  ScriptedNccl::get().hangs = false;
  ScriptedNccl::get().error_at = -1;
  members.run([&](int rank, Communicator& group, ScriptedDevice& device) {
    std::vector<float> values = numbers(rank);
    sum(group, values);
    CHECK(values[7] == 114);
    CHECK(device.staged == 0);
  });
}

TEST_CASE("16-bit floats are summed in f32 and rounded once") {
  Members members(3);
  members.run([&](int rank, Communicator& group, ScriptedDevice&) {
    // 256, 1 and 1 as bf16: 256 + 1 is 256 there, but 258 / 3 is 86.
    std::vector<uint16_t> values(4, rank == 0 ? 0x4380 : 0x3f80);
    group.all_reduce(values.data(), values.size(), Type::bf16, Op::average, Memory::device);
    CHECK(values[3] == 0x42ac);
  });
}

TEST_CASE("members that do different things are told, and NCCL is not asked") {
  Members members(3);
  members.run([&](int rank, Communicator& group, ScriptedDevice&) {
    std::vector<float> values(rank == 1 ? kCount : kCount / 2);
    try {
      sum(group, values);
      FAIL("it succeeded");
    } catch (const Aborted& aborted) {
      CHECK(contains(aborted.what(), "differ: all_reduce of"));
    }
  });
  CHECK(ScriptedNccl::get().calls == 0);
}

TEST_CASE("where NCCL cannot connect one member, all go through host memory, also later") {
  Members members(3);
  ScriptedNccl::get().fails_init = 1;
  for (int generation = 0; generation < 2; ++generation) {
    in_threads(3, [&](int rank) {
      const auto group = members.connect(rank, nullptr, /*patience_s=*/0.2);
      std::vector<float> values = numbers(rank);
      sum(*group, values);
      CHECK(values[7] == 7 * 3 + 300);
    });
    ++members.generation;
    ScriptedNccl::get().fails_init = -1;
  }
  for (int rank = 0; rank < 3; ++rank) CHECK(members.device(rank).staged == 2);
  CHECK(ScriptedNccl::get().made == 2);  // of the first generation's other two
}

TEST_CASE("a newer generation ends the wait for NCCL") {
  Members members(2);
  ScriptedNccl::get().never_inits = 1;
  in_threads(2, [&](int rank) {
    AbortSignal abort;
    std::jthread newer;
    if (rank == 0) {
      newer = std::jthread([&abort] {
        while (ScriptedNccl::get().made < 2) std::this_thread::yield();
        abort.abort("a newer generation");
      });
    }
    try {
      members.connect(rank, &abort);
      FAIL("it is connected");
    } catch (const Aborted& aborted) {
      CHECK(contains(aborted.what(), "a newer generation"));
    }
  });
}

namespace {

nlohmann::json endpoint(const std::string& host, const std::string& gpu, int version = 22809,
                        bool between_hosts = false) {
  nlohmann::json made = {{"host", host}};
  nccl::add_gpu(made, {gpu, version, between_hosts});
  return made;
}

nccl::Choice choice(const std::vector<nlohmann::json>& endpoints) {
  return nccl::choose(endpoints, {"replica 4", "replica 7"});
}

}  // namespace

TEST_CASE("NCCL is for members that have a GPU each, and the same NCCL") {
  const nccl::Choice good = choice({endpoint("a", "GPU-1"), endpoint("a", "GPU-2")});
  CHECK(good.nccl);
  CHECK(good.reason == "");
  CHECK(choice({endpoint("a", "GPU-1"), endpoint("a", "GPU-1")}).reason ==
        "replica 4 and replica 7 share GPU GPU-1");
  CHECK(contains(choice({endpoint("a", ""), endpoint("a", "")}).reason, "does not tell"));
  CHECK(choice({endpoint("a", "GPU-1"), endpoint("a", "GPU-2", 0)}).reason ==
        "replica 7 uses no NCCL");
  CHECK(choice({endpoint("a", "GPU-1"), endpoint("a", "GPU-2", 22705)}).reason ==
        "replica 4 has NCCL 2.28.9, replica 7 has 2.27.5");
  CHECK(choice({endpoint("a", "GPU-1"), {{"host", "a"}, {"gpu", "what"}}}).reason ==
        "replica 7 uses no NCCL");
}

TEST_CASE("between hosts NCCL is only for networks that are trusted") {
  CHECK(contains(choice({endpoint("a", "GPU-1"), endpoint("b", "GPU-2")}).reason, "--plain-links"));
  CHECK(contains(choice({endpoint("a", "GPU-1", 22809, true), endpoint("b", "GPU-2")}).reason,
                 "--plain-links"));
  CHECK(choice({endpoint("a", "GPU-1", 22809, true), endpoint("b", "GPU-2", 22809, true)}).nccl);
}

TEST_CASE("without a GPU nothing is said of NCCL, and a part with and a part without is refused") {
  const nlohmann::json cpu = {{"host", "a"}};
  const nccl::Choice none = choice({cpu, cpu});
  CHECK_FALSE(none.nccl);
  CHECK(none.reason == "");
  CHECK_THROWS_WITH(choice({cpu, endpoint("b", "GPU-1")}),
                    "replica 7 trains on a GPU, replica 4 on a CPU: give all a GPU, or choose "
                    "--device cpu for all");
}
