// Blocks over several links, which are pairs of sockets here; and over TCP to hosts that are late,
// or silent.

#include "runtime/comm/cpu/uplink.h"

#include <future>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

#include "core/net/tcp.h"
#include "runtime/comm/cpu/link.h"
#include "tests/support/soon.h"
#include "tests/unit/comm/group.h"

namespace uplink_test {

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

// Two hosts, of which 0 sends to 1.
struct TwoHosts {
  explicit TwoHosts(size_t links) {
    std::vector<std::vector<Stream>> here(2), there(2);
    for (size_t i = 0; i < links; ++i) {
      int ends[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
      here[1].emplace_back(Fd(ends[0]));
      there[0].emplace_back(Fd(ends[1]));
      senders.push_back(ends[0]);
      receivers.push_back(ends[1]);
    }
    sender.emplace(1, std::move(here), over);
    receiver.emplace(1, std::move(there), over);
  }

  void send(uint64_t index, const std::string& text) {
    sender->send(1, BlockKind::gather, 7, index, text.data(), text.size());
  }
  std::string receive(uint64_t index, size_t bytes) {
    std::string text(bytes, '\0');
    receiver->receive(0, BlockKind::gather, 7, index, text.data(), bytes);
    return text;
  }
  int waiting(size_t link) const {
    int bytes = 0;
    char buffer[1 << 16];
    const auto got = ::recv(receivers[link], buffer, sizeof buffer, MSG_PEEK);
    if (got > 0) bytes = static_cast<int>(got);
    return bytes;
  }

  AbortSignal over;
  std::optional<Uplink> sender, receiver;
  std::vector<int> senders, receivers;
};

// Two hosts with a connection over TCP, of which 0 sends to 1.
struct TcpHosts {
  explicit TcpHosts(std::chrono::milliseconds silence) {
    TcpAddress address{"127.0.0.1", 0, ""};
    const Fd listener = listen_tcp(address);
    Dialled dialled = dial_tcp(address, {in_seconds(10)});
    REQUIRE(dialled.socket);
    Fd accepted;
    REQUIRE(adaptdl::testing::soon([&] {
      accepted = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      return static_cast<bool>(accepted);
    }));
    // As tune_tcp(), with less patience.
    const auto milliseconds = static_cast<int>(silence.count());
    REQUIRE(setsockopt(dialled.socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds,
                       sizeof milliseconds) == 0);
    sending = dialled.socket.get();
    receiving = accepted.get();
    std::vector<std::vector<Stream>> here(2), there(2);
    here[1].emplace_back(std::move(dialled.socket));
    there[0].emplace_back(std::move(accepted));
    sender.emplace(1, std::move(here), over, silence);
    receiver.emplace(1, std::move(there), over, silence);
  }

  int sending = -1, receiving = -1;
  AbortSignal over;
  std::optional<Uplink> sender, receiver;
};

std::string text_of(uint64_t i, size_t bytes) {
  return std::string(bytes, static_cast<char>('a' + i % 26));
}

}  // namespace

TEST_CASE("blocks go by the links that have the least to send, and arrive in order") {
  TwoHosts hosts(3);
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 30; ++i) texts.push_back(text_of(i, i % 5 == 0 ? 4000 : 10 + i));
  for (uint64_t i = 0; i < 30; ++i) hosts.send(i, texts[i]);
  int least = 1 << 20, sum = 0;
  for (size_t link = 0; link < 3; ++link) {
    least = std::min(least, hosts.waiting(link));
    sum += hosts.waiting(link);
  }
  CHECK(least > sum / 3 - 5000);
  for (uint64_t i = 0; i < 30; ++i) CHECK(hosts.receive(i, texts[i].size()) == texts[i]);
}

TEST_CASE("more than the links take at once") {
  TwoHosts hosts(2);
  constexpr size_t kBytes = 1 << 20;
  std::thread other([&] {
    for (uint64_t i = 0; i < 20; ++i) CHECK(hosts.receive(i, kBytes) == text_of(i, kBytes));
  });
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 20; ++i) texts.push_back(text_of(i, kBytes));
  for (uint64_t i = 0; i < 20; ++i) hosts.send(i, texts[i]);
  hosts.sender->flush_all();
  other.join();
}

TEST_CASE("a link from which nothing is taken gets no more") {
  TwoHosts hosts(2);
  const std::string text = text_of(0, 20'000);
  size_t taken[2] = {0, 0};  // bytes
  const auto take_all = [&](size_t link) {
    char buffer[1 << 16];
    for (ssize_t got; (got = ::recv(hosts.receivers[link], buffer, sizeof buffer, 0)) > 0;) {
      taken[link] += static_cast<size_t>(got);
    }
  };
  constexpr uint64_t kBlocks = 30;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    hosts.send(i, text);
    if (i % 2 == 1) take_all(0);
  }
  take_all(1);
  const size_t block = kBlockHeaderBytes + text.size();
  CHECK(taken[0] + taken[1] == kBlocks * block);
  CHECK(taken[1] >= block);
  CHECK(taken[1] <= 3 * block);
}

TEST_CASE("what a peer has sent before it left is received") {
  TwoHosts hosts(3);
  const std::vector<std::string> texts{text_of(0, 100), text_of(1, 100), text_of(2, 100)};
  for (uint64_t i = 0; i < 3; ++i) hosts.send(i, texts[i]);
  hosts.sender.reset();
  for (uint64_t i = 0; i < 3; ++i) CHECK(hosts.receive(i, 100) == texts[i]);
  CHECK_THROWS_WITH_AS(hosts.receive(3, 1), doctest::Contains("to host 0 closed"), LinkClosed);
}

TEST_CASE("a link that ends alone ends the wait for a block that never comes") {
  TwoHosts hosts(2);
  shutdown(hosts.senders[1], SHUT_WR);
  const TimePoint begun = Monotonic::now();
  CHECK_THROWS_AS(hosts.receive(0, 1), LinkClosed);
  CHECK(seconds_since(begun) < 60);
}

TEST_CASE("a host may come to a collective long after the one that sends to it") {
  TcpHosts hosts(std::chrono::milliseconds(200));
  const std::string text = text_of(0, 16 << 20);
  std::string received(text.size(), '\0');
  std::promise<void> done;
  std::thread deadline([&] {  // one that gives up would leave the other waiting for ever
    if (done.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::timeout) {
      hosts.over.abort("it takes too long");
    }
  });
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    CHECK_NOTHROW(
        hosts.receiver->receive(0, BlockKind::gather, 7, 0, received.data(), received.size()));
  });
  CHECK_NOTHROW(hosts.sender->send(1, BlockKind::gather, 7, 0, text.data(), text.size()));
  CHECK_NOTHROW(hosts.sender->flush_all());
  other.join();
  done.set_value();
  deadline.join();
  CHECK((received == text));  // does not print them
}

TEST_CASE("a host that answers nothing any more is found, and so said") {
  TcpHosts hosts(std::chrono::milliseconds(200));
  sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &nothing};
  if (setsockopt(hosts.receiving, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    MESSAGE("skipped: this system has no filters of sockets");
    return;
  }
  CHECK(!unanswered(hosts.sending, std::chrono::milliseconds(200)));
  char byte = 0;
  hosts.sender->send(1, BlockKind::gather, 7, 0, &byte, 1);
  const TimePoint begun = Monotonic::now();
  CHECK_THROWS_WITH_AS(hosts.sender->receive(1, BlockKind::gather, 7, 0, &byte, 1),
                       doctest::Contains("closed: no answer"), LinkClosed);
  CHECK(seconds_since(begun) < 8);
}

TEST_CASE("a block that is not the next one is told") {
  TwoHosts hosts(2);
  const std::string text = text_of(0, 100);
  hosts.send(5, text);
  CHECK_THROWS_WITH_AS(hosts.receive(4, 100), doctest::Contains("instead of block 4"), Error);
  // Numbers that neither link should have.
  TwoHosts odd(2);
  for (const int socket : odd.senders) {
    const std::string header = encode(BlockHeader{BlockKind::gather, 1, 7, 0, 100, 9});
    REQUIRE(::send(socket, header.data(), header.size(), 0) == static_cast<ssize_t>(header.size()));
  }
  CHECK_THROWS_WITH_AS(odd.receive(0, 100), doctest::Contains("different collectives"), Error);
}

}  // namespace uplink_test
