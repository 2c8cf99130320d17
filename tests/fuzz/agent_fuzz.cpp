// The launcher's side of other hosts: what strangers send, what who has the key sends before it has
// joined, and frames of an agent that has started a replica. The first byte chooses.

#include <algorithm>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/launch/hosts/agent_server.h"
#include "core/net/socket.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

constexpr auto kPatience = std::chrono::seconds(10);

struct Launcher {
  int joined = 0, left = 0, slot = 0;
  AgentServer agents{
      {.secret = "secret"},
      "run",
      {},
      {[this](const AgentServer::Slots& slots, const std::string&) {
         ++joined;
         slot = slots.front();
       },
       [this](const AgentServer::Slots&, const std::string&, const std::string&) { ++left; }}};

  template <typename F>
  void serve_until(F&& condition) {
    const TimePoint end = Monotonic::now() + kPatience;
    while (agents.serve(), !condition()) {
      ADAPTDL_CHECK(Monotonic::now() < end);
      std::vector<pollfd> waits;
      agents.add_waits(waits);
      ::poll(waits.data(), waits.size(), 1);
    }
  }

  // Nobody is connected: only the listener is waited for.
  bool alone() const {
    std::vector<pollfd> waits;
    agents.add_waits(waits);
    return waits.size() == 1;
  }
};

Fd connect(const Launcher& launcher) {
  Fd socket = connect_tcp("127.0.0.1", launcher.agents.port(), Monotonic::now() + kPatience);
  watch_peer(socket.get(), Seconds(20));
  return socket;
}

Stream greeted(Launcher& launcher) {
  Stream stream(connect(launcher), agent_key("secret", "run"), TlsSide::client);
  launcher.serve_until([&] {
    const IoState state = stream.shake_hands();
    ADAPTDL_CHECK(state != IoState::closed);
    return state == IoState::done;
  });
  return stream;
}

void say(Launcher& launcher, Stream& stream, std::string_view bytes) {
  bytes = bytes.substr(0, 32u << 10);
  launcher.serve_until([&] {
    size_t sent = 0;
    const bool over = bytes.empty() || stream.send(bytes, sent) == IoState::closed;
    bytes.remove_prefix(sent);
    return over;
  });
}

void stranger(Launcher& launcher, Stream stream, std::string_view bytes) {
  const int before = launcher.joined;
  say(launcher, stream, bytes);
  ::shutdown(stream.fd(), SHUT_WR);
  launcher.serve_until([&] { return launcher.alone(); });
  ADAPTDL_CHECK(launcher.joined == before || stream.encrypted());
}

void member(Launcher& launcher, std::string_view bytes) {
  Stream stream = greeted(launcher);
  const int before = launcher.joined;
  say(launcher, stream, fuzz_frame(R"({"type":"join","id":"m","slots":2,"host":"h","terms":{}})"));
  launcher.serve_until([&] { return launcher.joined == before + 1; });
  const auto replica = launcher.agents.start(7, launcher.slot, {{"run_id", "1"}});
  say(launcher, stream, bytes);
  ::shutdown(stream.fd(), SHUT_WR);
  launcher.serve_until([&] { return launcher.left == launcher.joined; });
  try {
    replica->channel.drain([](const Json& message) { dump_json(message); });
  } catch (const Error&) {
    // what the agent passed on is no message
  }
  ADAPTDL_CHECK(replica->process->poll());
  replica->process->stop_change();
  replica->process->kill();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static Launcher launcher;
  const std::string_view bytes = fuzz_text(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      stranger(launcher, Stream(connect(launcher)), bytes);
      break;
    case 1:
      member(launcher, bytes);
      break;
    default:
      stranger(launcher, greeted(launcher), bytes);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string join =
      fuzz_frame(R"({"type":"join","id":"1","slots":1,"host":"h","terms":{}})");
  const std::string said =
      fuzz_frame(R"({"type":"say","member":7,"message":{"type":"hello","protocol":1}})");
  const std::string ended = fuzz_frame(
      R"({"type":"ended","member":7,"signaled":true,"value":9,"memory":true,"reason":"r"})");
  return {{'\x00' + join, '\x02' + join,
           "\x01" + fuzz_frame(R"({"type":"started","member":7,"pid":12})") + said + ended,
           "\x01" + fuzz_frame(R"({"type":"stopped","member":7,"stopped":true})") +
               fuzz_frame(R"({"type":"closed","member":7})") + fuzz_frame(R"({"type":"leaving"})"),
           '\x00' + fuzz_frame(R"({"type":"leaving"})"), std::string("\x01\xff\xff\xff\x7f", 5),
           std::string("\x00\x01\x10\x00\x00", 5)},
          {join, said, ended, "\"member\":7", "\"member\":-1", "\"pid\":", "null", "{}", "[]",
           "1e99", "4294967296", "\"message\":", "\"type\":", "\"terms\":", "\\u0000"}};
}
