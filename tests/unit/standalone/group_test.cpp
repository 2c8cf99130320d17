// Replicas that exchange values, each on a thread.

#include "runtime/standalone/group.h"

#include <doctest/doctest.h>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "runtime/comm/cpu/link.h"
#include "tests/support/closed_port.h"

using namespace adaptdl;
using namespace adaptdl::standalone;

namespace {

// Calls `body` for each of several replicas on a thread of its own.
template <typename Body>
void in_group(int replicas, const Body& body) {
  const adaptdl::testing::ClosedPort kept;
  std::vector<std::future<void>> threads;
  for (int rank = 0; rank < replicas; ++rank) {
    Place place;
    place.rank = rank;
    place.replicas = replicas;
    place.master_addr = "127.0.0.1";
    place.master_port = kept.port;
    place.patience_s = 20;
    threads.push_back(std::async(std::launch::async, [place, &body] {
      std::optional<Group> group(place);
      body(group);
    }));
  }
  for (auto& thread : threads) thread.get();
}

std::string join(const std::string& so_far, const std::string& next) {
  return so_far + next;
}

}  // namespace

TEST_CASE("bytes of any length are combined in order of rank") {
  in_group(4, [](std::optional<Group>& group) {
    CHECK(group->replicas() == 4);
    const auto rank = static_cast<size_t>(group->rank());
    for (int round = 0; round < 20; ++round) {
      CHECK(group->fold(std::string(rank, 'a' + static_cast<char>(rank)), join) == "bccddd");
    }
    CHECK(group->fold("", join).empty());
    const std::string large(300'000, 'x');
    CHECK(group->fold(rank == 2 ? large : "", join) == large);
  });
}

TEST_CASE("what is posted comes in order, beside calls that wait") {
  in_group(3, [](std::optional<Group>& group) {
    std::string seen;
    for (int i = 0; i < 10; ++i) {
      group->post([&, i] { seen += group->fold(std::to_string(i), join); });
    }
    CHECK(group->fold("x", join) == "xxx");
    CHECK(seen == "000111222333444555666777888999");
    group->post([&seen] { seen = "last"; });
    group.reset();  // waits for it
    CHECK(seen == "last");
  });
}

TEST_CASE("an exception of the fold is an error of all, and the group goes on") {
  in_group(3, [](std::optional<Group>& group) {
    const auto throws = [](const std::string&, const std::string&) -> std::string {
      throw std::runtime_error("no sum of these");
    };
    CHECK_THROWS_WITH_AS(group->fold("1", throws), "allreduce: no sum of these", Error);
    CHECK(group->fold("1", join) == "111");
  });
}

TEST_CASE("a replica that has its result may go; that is an error of the next call only") {
  for (int round = 0; round < 20; ++round) {
    in_group(3, [](std::optional<Group>& group) {
      CHECK(group->fold("1", join) == "111");
      if (group->rank() == 1) return;
      CHECK_THROWS_AS(group->fold("1", join), comm::Aborted);
      CHECK_THROWS_AS(group->fold("1", join), comm::Aborted);
    });
  }
}

TEST_CASE("a lone replica needs nobody") {
  Group group(Place{});
  CHECK(group.fold("mine", join) == "mine");
}
