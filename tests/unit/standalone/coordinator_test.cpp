// Replicas of one process, each on a thread, meet at rank 0's coordinator.

#include "runtime/standalone/coordinator.h"

#include <atomic>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/net/socket.h"
#include "runtime/comm/cpu/link.h"
#include "runtime/standalone/meeting.h"
#include "tests/support/closed_port.h"

using namespace adaptdl;
using namespace adaptdl::standalone;

namespace {

constexpr int kReplicas = 5;

Place place(int rank, int replicas, int port) {
  Place place;
  place.rank = rank;
  place.replicas = replicas;
  place.master_addr = "127.0.0.1";
  place.master_port = port;
  place.patience_s = 20;
  return place;
}

}  // namespace

TEST_CASE("replicas meet in any order, beside strangers who say nothing or nonsense") {
  const adaptdl::testing::ClosedPort kept;
  const int port = kept.port;
  std::vector<std::thread> threads;
  std::atomic<int> began{0};
  for (int rank = kReplicas; rank-- > 0;) {
    threads.emplace_back([rank, port, &began] {
      Meeting meeting = meet(place(rank, kReplicas, port), "test");
      CHECK(meeting.secret.size() == 32);
      CHECK(!meeting.listener.tcp);  // all on this host
      CHECK((meeting.coordinator != nullptr) == (rank == 0));
      meeting.channel->send({{"type", "hello"}, {"endpoint", rank}, {"accelerator", ""}});
      const auto message = meeting.channel->receive(Monotonic::now() + std::chrono::seconds(20));
      REQUIRE(message);
      CHECK(message->at("members").size() == kReplicas);
      CHECK(message->at("members")[static_cast<size_t>(rank)].at("endpoint") == rank);
      ++began;
      meeting.channel->send({{"type", "bye"}});
      if (meeting.coordinator) meeting.coordinator->finish();
    });
  }
  const comm::Patience patience{Monotonic::now() + std::chrono::seconds(10)};
  for (const char* words : {"", "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff", "\x02\0\0\0{}"}) {
    const auto dialled = comm::dial_tcp({"127.0.0.1", static_cast<uint16_t>(port), ""}, patience);
    if (dialled.socket) send_all(dialled.socket.get(), words);
  }
  for (auto& thread : threads) thread.join();
  CHECK(began == kReplicas);
}

TEST_CASE("a port that is taken, or none, is an error that names it") {
  TcpAddress address{"127.0.0.1", 0, ""};
  const Fd taken = listen_tcp(address);
  CHECK_THROWS_WITH_AS(Coordinator(place(0, 2, address.port), "test"),
                       doctest::Contains("ADAPTDL_MASTER_PORT"), Error);
  CHECK_THROWS_WITH_AS(meet(place(0, 2, 0), "test"), doctest::Contains("ADAPTDL_MASTER_PORT"),
                       Error);
  CHECK_THROWS_AS(meet(place(2, 2, 80), "test"), Error);
}
