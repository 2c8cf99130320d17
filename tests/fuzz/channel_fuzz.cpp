// Frames of the control channel, from a replica or from another host: however the stream is cut,
// the same messages come out, and each can be passed on. The first byte chooses the cut.

#include <algorithm>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "core/launch/io/protocol.h"
#include "core/net/socket.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

constexpr uint32_t kLongest = 48u << 10;

struct Heard {
  std::vector<Json> messages;
  bool good = true;  // no frame was refused
};

// What a channel understands of the bytes, which come in such pieces.
Heard hear(std::string_view bytes, size_t piece) {
  auto [ours, theirs] = socket_pair();
  Channel channel(std::move(ours), kLongest);
  Heard heard;
  bool open = true;
  try {
    while (open) {
      const std::string_view now = bytes.substr(0, piece);
      bytes.remove_prefix(now.size());
      if (now.empty()) {
        theirs.reset();
      } else {
        ADAPTDL_CHECK(send_all(theirs.get(), now));
      }
      open = channel.drain([&](Json message) { heard.messages.push_back(std::move(message)); });
    }
  } catch (const Error&) {
    heard.good = false;
  }
  return heard;
}

// As an agent does with a replica's message, and the launcher with an agent's.
void pass_on(const Json& message) {
  auto [ours, theirs] = socket_pair();
  Channel sender(std::move(ours)), receiver(std::move(theirs));
  const Json wrapped = {{"type", "say"}, {"member", 7}, {"message", message}};
  try {
    if (!sender.send(wrapped)) return;
  } catch (const Error&) {
    return;  // refused before anything was sent
  }
  const auto arrived = receiver.receive(Monotonic::now() + std::chrono::seconds(20));
  ADAPTDL_CHECK(arrived && dump_json(*arrived) == dump_json(wrapped));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = fuzz_text(data + 1, size - 1);
  const Heard whole = hear(bytes, kLongest);
  const Heard pieces = hear(bytes, std::max(size / 64, size_t{data[0]} + 1));
  ADAPTDL_CHECK(whole.good == pieces.good && whole.messages == pieces.messages);
  for (const Json& message : whole.messages) {
    ADAPTDL_CHECK(message["type"].is_string());
    pass_on(message);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string hello = fuzz_frame(
      R"({"type":"hello","protocol":1,"pid":9,"endpoint":{"tcp":[]},"accelerator":"","state_bytes":1})");
  const std::string step =
      fuzz_frame(R"({"type":"event","event":{"event":"step","step":1,"loss":0.5}})");
  const std::string join =
      fuzz_frame(R"({"type":"join","nonce":"n","proof":"p","slot":1,"host":"h","run":"r"})");
  const auto deep = [](size_t depth) {
    return fuzz_frame(R"({"type":"event","event":)" + std::string(depth, '[') +
                      std::string(depth, ']') + "}");
  };
  const std::string cut = '\x02' + hello + step;
  return {{'\x00' + hello + step, '\x07' + join, cut.substr(0, cut.size() - 5), '\x02' + deep(20),
           '\x10' + deep(63) + step, '\x10' + deep(20000),
           '\x01' + fuzz_frame("{}") + fuzz_frame("7"), std::string("\x01\xff\xff\xff\xff", 5)},
          {fuzz_frame(R"({"type":"bye"})"), std::string(4, '\0'), "\"type\":", "\"message\":", "{",
           "}", "[", "]", "null", "\\ud800", "\xff", "1e999", "18446744073709551616"}};
}
