// The agent's side of other hosts: what says that it is the launcher and has the key, from its
// first frame on. The first byte chooses whether it first accepts the agent. Replicas are processes
// that only sleep.

#include <signal.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/launch/hosts/agent.h"
#include "core/net/stream.h"
#include "core/net/tcp.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr size_t kMostBytes = 8u << 10;  // each `start` among them is a process

// Accepts one agent, sends it `bytes` and no more, and reads until it closes the connection.
void launcher(Fd listener, std::string_view bytes) {
  const TimePoint deadline = Monotonic::now() + kPatience;
  std::vector<pollfd> comes{{listener.get(), POLLIN, 0}};
  poll_until(comes, deadline);
  Fd socket(::accept(listener.get(), nullptr, nullptr));
  listener.reset();  // the next attempt is refused at once
  if (!socket) return;
  Stream stream(std::move(socket), agent_key("secret", "run"), TlsSide::server);
  bool asked = false;  // only then may a server send
  while (Monotonic::now() < deadline) {
    std::byte heard[4096];
    size_t moved = 0;
    const IoState state = stream.recv(heard, moved);
    if (state == IoState::closed) return;
    asked |= state == IoState::done;
    if (asked && !bytes.empty()) {
      size_t sent = 0;
      if (stream.send(bytes, sent) == IoState::closed) return;
      bytes.remove_prefix(sent);
      if (bytes.empty()) ::shutdown(stream.fd(), SHUT_WR);
    }
    std::vector<pollfd> waits{{stream.fd(), stream.wants(), 0}};
    if (asked && !bytes.empty()) waits.front().events |= POLLOUT;
    if (state == IoState::later) poll_until(waits, deadline);
  }
  ADAPTDL_CHECK(!"the agent goes on although its launcher has ended the run");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const TemporaryDirectory folder("fuzz");
  std::string bytes(fuzz_text(data + 1, std::min(size - 1, kMostBytes)));
  if (data[0] % 4 != 0)
    bytes = fuzz_frame(R"({"type":"joined","protocol":4,"run_id":"1"})") + bytes;
  bytes += fuzz_frame(R"({"type":"end","exit":3})");

  Fd listener = listen_tcp(0);
  AgentOptions options;
  options.run.name = "run";
  options.run.program = "program";
  options.run.worker_path = "/bin/sleep";
  options.run.arguments = {"1000"};
  options.run.hosts = HostsOptions{.secret = "secret"};
  options.run.log_dir = join_path(folder.path(), "logs");
  options.host = "h";
  bool found = false;
  options.find_launcher = [&, port = port_of(listener.get())] {
    if (std::exchange(found, true)) raise(SIGTERM);  // the only one was not followed
    return LauncherAddress{"127.0.0.1", port};
  };
  std::thread other([&] { launcher(std::move(listener), bytes); });
  run_agent(options, [&](const std::string& text) {
    // It would look for another launcher.
    if (text.starts_with("invalid message") || text.starts_with("lost the connection") ||
        text.starts_with("cannot reach") || text.starts_with("cannot join")) {
      raise(SIGTERM);
    }
  });
  other.join();
  remove_tree(options.run.log_dir);
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string start = fuzz_frame(
      R"({"type":"start","member":7,"slot":0,"invitation":{"run_id":"1","replicas":2,"atomic_limit":0,"fresh_at":0}})");
  const std::string tell = fuzz_frame(
      R"({"type":"tell","member":7,"message":{"type":"stop","mode":"now","threads":4}})");
  const std::string kill = fuzz_frame(R"({"type":"kill","member":7})");
  const std::string end = fuzz_frame(R"({"type":"end","exit":0})");
  return {{"\x01" + start + tell + kill, "\x01" + start + start + end, "\x01" + tell + kill + end,
           '\x00' + fuzz_frame(R"({"type":"joined","protocol":1})") + start,
           '\x00' + fuzz_frame(R"({"type":"joined","protocol":99})"),
           '\x00' + fuzz_frame(R"({"type":"refused","reason":"r","final":true})"),
           "\x01" + fuzz_frame("[]"), std::string("\x01\xff\xff\xff\x7f", 5),
           std::string("\x00\x00\x00\x00\x01", 5)},
          {start,
           tell,
           kill,
           end,
           "\"member\":7",
           "\"member\":-1",
           "\"invitation\":",
           "\"slot\":",
           "\"run_id\":",
           "\"replicas\":",
           "\"atomic_limit\":",
           "null",
           "{}",
           "[]",
           "1e99",
           "4294967296",
           "\"message\":",
           "\"type\":",
           "\"threads\":",
           "\\u0000"}};
}
