// What who stands between two hosts can see and do.

#include <atomic>
#include <mutex>
#include <string_view>
#include <sys/socket.h>
#include <thread>

#include "core/net/socket.h"
#include "runtime/comm/cpu/endpoint.h"
#include "runtime/comm/cpu/link.h"
#include "tests/unit/comm/group.h"

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

// Carries connections to another port of this host, and keeps what passes.
class Relay {
 public:
  Relay() {
    TcpAddress address{"127.0.0.1", 0, "lo"};
    listener_ = listen_tcp(address);
    port_ = address.port;
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  uint16_t port() const { return port_; }
  void begin(uint16_t to) {
    thread_ = std::thread([this, to] { run(to); });
  }
  void damage() { damage_ = true; }  // of every large packet from now on
  std::string seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void run(uint16_t to) {
    std::vector<std::pair<Fd, Fd>> ways;
    while (!stop_) {
      if (Fd from{accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)}) {
        ways.emplace_back(std::move(from),
                          std::move(dial_tcp({"127.0.0.1", to, "lo"}, {in_seconds(5)}).socket));
      }
      for (auto& [a, b] : ways) {
        carry(a, b);
        carry(b, a);
      }
      usleep(200);
    }
  }
  void carry(Fd& from, Fd& to) {
    char bytes[64 << 10];
    const ssize_t got = from ? ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT) : -1;
    if (got == 0) to.reset();
    if (got <= 0) return;
    if (damage_ && got > 1000) bytes[got / 2] = static_cast<char>(bytes[got / 2] ^ 4);
    const std::string_view text(bytes, static_cast<size_t>(got));
    send_all(to.get(), text, in_seconds(5));
    const std::lock_guard lock(mutex_);
    seen_ += text;
  }

  Fd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false, damage_ = false;
  std::mutex mutex_;
  std::string seen_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("between hosts nobody can read what is exchanged, or change it unnoticed") {
  constexpr float kWanted = 6.2e-20f;  // a pattern of bytes that is found again
  for (const bool encrypt : {true, false}) {
    Relay relay;
    std::vector<std::unique_ptr<Listener>> listeners;
    std::vector<nlohmann::json> endpoints;
    for (const char* host : {"a", "b"}) {
      listeners.push_back(std::make_unique<Listener>(
          kSecret,
          ListenerOptions{
              .tcp = true, .reach = {.interface = "lo"}, .host = host, .encrypt = encrypt}));
      endpoints.push_back(listeners.back()->endpoint());
    }
    const uint16_t port = parse_endpoint(endpoints[0]).tcp[0].port;
    endpoints[0]["tcp"][0]["port"] = relay.port();
    relay.begin(port);
    std::atomic<int> right = 0, refused = 0;
    in_threads(2, [&](int rank) {
      GroupOptions options{.generation = 1, .rank = rank, .endpoints = endpoints};
      options.deadline = in_seconds(20);
      const auto group = connect(*listeners[static_cast<size_t>(rank)], options);
      std::vector<float> values(100'000, kWanted);
      group->all_reduce(values.data(), values.size(), Type::f32, Op::max, Memory::host);
      right += values == std::vector<float>(100'000, kWanted);
      group->barrier();
      if (rank == 0) relay.damage();
      group->barrier();
      try {
        group->all_reduce(values.data(), values.size(), Type::f32, Op::max, Memory::host);
      } catch (const Aborted&) {
        ++refused;
      }
    });
    CHECK(right == 2);
    const std::string pattern(reinterpret_cast<const char*>(&kWanted), sizeof kWanted);
    CHECK((relay.seen().find(pattern + pattern + pattern) == std::string::npos) == encrypt);
    if (encrypt) CHECK(refused == 2);
  }
}
