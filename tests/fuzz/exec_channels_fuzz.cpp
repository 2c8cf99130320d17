// What an API server answers to exec and portforward: the upgrade to a WebSocket, its frames, and
// the messages of their channels, over a real connection. The first byte chooses what is asked, and
// whether the input is the whole answer or comes after a good upgrade.

#include <arpa/inet.h>
#include <deque>
#include <mutex>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/poll.h"
#include "core/kube/exec.h"
#include "core/kube/port_forward.h"
#include "core/net/socket.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

const std::string kUpgrade =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: ";
constexpr auto kPatience = std::chrono::seconds(10);

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::string read_to_end(int socket, std::string_view until = {}) {
  std::string text;
  std::byte piece[4096];
  const TimePoint end = Monotonic::now() + kPatience;
  while ((until.empty() || text.find(until) == std::string::npos) &&
         wait_ready(socket, POLLIN, end)) {
    const auto got = recv_some(socket, piece);
    if (!got || *got == 0) break;
    text.append(reinterpret_cast<const char*>(piece), *got);
  }
  ADAPTDL_CHECK(Monotonic::now() < end);
  return text;
}

// Gives every request the same answer, and closes.
class Server {
 public:
  Server() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    ADAPTDL_CHECK(::bind(listener_.get(), generic, size) == 0);
    ADAPTDL_CHECK(::listen(listener_.get(), 64) == 0);
    ADAPTDL_CHECK(::getsockname(listener_.get(), generic, &size) == 0);
    port_ = ntohs(address.sin_port);
    std::thread([this] {
      for (;;) serve();
    }).detach();
  }

  void set_answer(std::string answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  void serve() {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    read_to_end(socket.get(), "\r\n\r\n");
    std::string answer;
    {
      const std::lock_guard lock(mutex_);
      answer = answer_;
    }
    send_all(socket.get(), answer);
    ::shutdown(socket.get(), SHUT_WR);
    // The client may keep its end for a while, and ask again meanwhile.
    answered_.push_back(std::move(socket));
    if (answered_.size() > kAnswered) answered_.pop_front();
  }

  static constexpr size_t kAnswered = 4;
  Fd listener_;
  uint16_t port_ = 0;
  std::deque<Fd> answered_;  // of the thread
  std::mutex mutex_;
  std::string answer_;
};

kube::Config config_of(const Server& server) {
  kube::Config config;
  config.server = server.url();
  config.name_space = "default";
  return config;
}

void run_command(kube::Client& client, bool terminal) {
  size_t heard = 0;
  kube::ExecOptions options;
  options.command = {"true"};
  options.terminal = terminal;
  options.output = options.errors = [&](std::string_view text) { heard += text.size(); };
  if (terminal) options.size = [] { return kube::TerminalSize{}; };
  try {
    const int code = kube::exec(client, kube::kPods.in("default", "p"), options);
    ADAPTDL_CHECK(code >= 0 && code < 256);
  } catch (const Error&) {
    // refused, or no answer
  }
}

void forward(const kube::PortForward& forwarded) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(forwarded.port());
  ADAPTDL_CHECK(
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  send_all(socket.get(), "hello");
  read_to_end(socket.get());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  set_log_level(LogLevel::error);
  // Never destroyed: its thread lives as long as the program.
  static Server& server = *new Server;
  static kube::Client client(config_of(server), {.retry_budget = Seconds(0)});
  static kube::PortForward& forwarded =
      *new kube::PortForward(client, kube::kPods.in("default", "p"), 80);
  const int ask = data[0] % 4;
  const bool upgraded = data[0] / 4 % 4 != 0;
  const char* protocol = ask == 3 ? "v4.channel.k8s.io" : "v5.channel.k8s.io";
  server.set_answer((upgraded ? kUpgrade + protocol + "\r\n\r\n" : "") +
                    std::string(fuzz_text(data + 1, size - 1)));
  if (ask == 3) {
    forward(forwarded);
  } else {
    run_command(client, ask == 2);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const auto frame = [](char opcode, const std::string& payload) {
    return std::string{opcode, static_cast<char>(payload.size())} + payload;
  };
  const std::string ended = frame('\x82', "\x03{\"status\":\"Success\"}");
  const std::string failed =
      frame('\x82',
            "\x03{\"status\":\"Failure\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\","
            "\"message\":\"7\"}]}}");
  const std::string output = frame('\x82', "\x01out"), close = frame('\x88', "\x03\xe8");
  const std::string parts = frame('\x02',
                                  "\x02"
                                  "er") +
                            frame('\x89', "ping") + frame('\x80', "r");
  const std::string port =
      frame('\x82', std::string("\0\x50\0", 3)) + frame('\x82', std::string("\0data", 5));
  return {{"\x04" + output + ended + close, "\x06" + parts + failed,
           "\x07" + port + frame('\x82', "\x01\x50") + close, "\x04" + frame('\x8a', "") + output,
           std::string(1, '\0') + kUpgrade + "v5.channel.k8s.io\r\n\r\n" + ended,
           std::string(1, '\0') +
               "HTTP/1.1 403 Forbidden\r\nContent-Length: 20\r\n\r\n{\"message\":\"refused\"}"},
          {output, ended, close, parts, std::string(1, '\0'), "\x82\x7e", "\x82\x7f",
           "\xff\xff\xff\xff\xff\xff\xff\xff", "\r\n", "\r\n\r\n", "HTTP/1.1 101\r\n",
           "HTTP/1.1 401\r\n", "HTTP/1.1 200 OK\r\n",
           "Sec-WebSocket-Protocol: ", "Content-Length: 99999999999\r\n",
           "Transfer-Encoding: chunked\r\n", "Sec-WebSocket-Extensions: permessage-deflate\r\n"}};
}
