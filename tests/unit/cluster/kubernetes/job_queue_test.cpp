#include "core/cluster/kubernetes/jobs/job_queue.h"

#include <chrono>
#include <doctest/doctest.h>
#include <future>
#include <vector>

namespace adaptdl::kubernetes {
namespace {

struct OpenQueue : JobQueue {
  explicit OpenQueue(int writers) : JobQueue(writers) { open(); }
};

TEST_CASE(
    "a job waits once, is with one writer at a time, and comes again if it changed meanwhile") {
  OpenQueue queue(4);
  queue.add("a/1");
  queue.add("a/1");
  queue.add("a/2");
  CHECK_FALSE(queue.is_taken("a/1"));
  CHECK(queue.take() == "a/1");
  CHECK(queue.is_taken("a/1"));
  queue.add("a/1");
  CHECK(queue.take() == "a/2");
  queue.done("a/1");
  CHECK_FALSE(queue.is_taken("a/1"));
  CHECK(queue.take() == "a/1");
  queue.done("a/1");
  queue.done("a/2");
  queue.add("a/3");
  CHECK(queue.take() == "a/3");
}

TEST_CASE("namespaces take turns") {
  OpenQueue queue(64);
  for (const char* id : {"a/1", "a/2", "a/3", "b/1", "c/1", "c/2"}) queue.add(id);
  std::vector<std::string> order;
  for (int i = 0; i < 6; ++i) order.push_back(*queue.take());
  CHECK(order == std::vector<std::string>{"a/1", "b/1", "c/1", "a/2", "c/2", "a/3"});
}

TEST_CASE("a namespace with many jobs leaves writers to the others") {
  OpenQueue queue(16);
  for (int i = 0; i < 100; ++i) queue.add("crowd/" + std::to_string(i));
  for (int i = 0; i < 8; ++i) CHECK(queue.take()->starts_with("crowd/"));
  auto next = std::async(std::launch::async, [&] { return queue.take(); });
  CHECK(next.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  queue.add("good/1");
  CHECK(next.get() == "good/1");
  SUBCASE("however many such namespaces there are") {
    for (int i = 0; i < 100; ++i) {
      const std::string id = "crowd-" + std::to_string(i) + "/1";
      queue.add(id);
      queue.add("good/2");
      bool reached = false;
      for (int taken = 0; taken < 2 && !reached; ++taken) {
        const std::string got = *queue.take();
        reached = got == "good/2";
        queue.done(got);
      }
      CHECK(reached);
    }
  }
  SUBCASE("and goes on as its writers finish") {
    next = std::async(std::launch::async, [&] { return queue.take(); });
    CHECK(next.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    queue.done("crowd/0");
    CHECK(next.get() == "crowd/8");
  }
}

TEST_CASE("one writer does it all") {
  OpenQueue queue(1);
  queue.add("a/1");
  queue.add("b/1");
  for (const char* id : {"a/1", "b/1"}) {
    CHECK(queue.take() == id);
    queue.done(id);
  }
}

TEST_CASE("a closed queue wakes its writers, takes nothing, and is empty when it opens") {
  OpenQueue queue(2);
  auto next = std::async(std::launch::async, [&] { return queue.take(); });
  queue.close();
  CHECK_FALSE(next.get());
  queue.add("a/1");
  queue.open();
  queue.add("a/2");
  CHECK(queue.take() == "a/2");
}

}  // namespace
}  // namespace adaptdl::kubernetes
