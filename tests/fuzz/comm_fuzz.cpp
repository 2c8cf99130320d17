// The wire of the communicator: every message, the challenge, the streams, a live listener.
// The first byte chooses.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>

#include "core/base/error.h"
#include "core/net/socket.h"
#include "runtime/comm/connect.h"
#include "runtime/comm/cpu/endpoint.h"
#include "runtime/comm/cpu/link.h"
#include "runtime/comm/cpu/uplink.h"
#include "runtime/comm/cpu/wire.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::comm;

namespace {

const std::string kSecret = "a secret of at least 16 bytes";

Bytes bytes_of_text(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// What is understood has one spelling only.
void messages(Bytes input) {
  const auto same = [&](const auto& message) {
    const std::string text = encode(message);
    ADAPTDL_CHECK(text.size() == input.size() &&
                  std::equal(input.begin(), input.end(), bytes_of_text(text).begin()));
  };
  if (const auto hello = parse_hello(input)) {
    ADAPTDL_CHECK(hello->to < hello->from && hello->from < hello->size);
    same(*hello);
  }
  if (const auto proof = parse_proof(input)) same(*proof);
  if (const auto verdict = parse_verdict(input)) same(*verdict);
  if (const auto offer = parse_segment_offer(input)) same(*offer);
  if (const auto header = parse_block_header(input)) same(*header);
}

// Nobody without the secret gets through, whatever is said after a sound or unsound Hello.
void challenge(Bytes input, bool sound_hello) {
  ServerHandshake server(Nonce{1, 2, 3});
  std::string reply;
  if (sound_hello) {
    Hello hello;
    hello.from = 1;
    hello.size = 2;
    server.feed(kSecret, bytes_of_text(encode(hello)), reply);
    ADAPTDL_CHECK(server.state() == ServerHandshake::State::answer);
    ADAPTDL_CHECK(!answer_challenge(kSecret, hello, input));
    ADAPTDL_CHECK(!answer_challenge("another secret", hello, bytes_of_text(reply)));
  }
  while (const size_t wanted = server.wanted()) {
    const size_t length = std::min(wanted, input.size());
    server.feed(kSecret, input.first(length), reply);
    input = input.subspan(length);
  }
  ADAPTDL_CHECK(server.state() == ServerHandshake::State::refused);
}

// The same messages come out however the stream is cut.
void control(Bytes input, size_t piece) {
  ControlParser whole, pieces;
  const bool good = whole.feed(input);
  bool good_so_far = true;
  for (Bytes rest = input; !rest.empty();) {
    const size_t length = std::min(piece, rest.size());
    good_so_far = pieces.feed(rest.first(length));
    rest = rest.subspan(length);
  }
  ADAPTDL_CHECK(good == good_so_far || input.empty());
  for (;;) {
    const auto a = whole.next(), b = pieces.next();
    ADAPTDL_CHECK(a.has_value() == b.has_value());
    if (!a) break;
    ADAPTDL_CHECK(a->text == b->text && a->value == b->value && a->text.size() <= kMaxControlText);
  }
}

// One link has the first part of the input, a second one the rest.
void stream(Bytes input, size_t links) {
  const AbortSignal over;
  std::vector<std::vector<Stream>> streams(1);
  input = input.first(std::min<size_t>(input.size(), 4096));
  for (size_t link = 0; link < links; ++link) {
    auto [ours, theirs] = socket_pair();
    streams.front().emplace_back(std::move(ours));
    const Bytes part = input.first(link + 1 == links ? input.size() : input.size() / 2);
    input = input.subspan(part.size());
    ADAPTDL_CHECK(::send(theirs.get(), part.data(), part.size(), MSG_NOSIGNAL) >= 0 ||
                  part.empty());
  }
  Uplink uplink(7, std::move(streams), over);
  uint8_t data[16];
  try {
    for (uint64_t i = 0;; ++i) uplink.receive(0, BlockKind::gather, 3, i, data, sizeof data);
  } catch (const Error&) {
    // the end of the stream, or another block than expected
  }
}

void listener(Bytes input) {
  // Never destroyed: its thread would outlive what OpenSSL frees at the exit.
  static Listener& listener = *new Listener(kSecret);
  static const std::string name = parse_endpoint(listener.endpoint()).unix_name;
  const Patience patience{Monotonic::now() + std::chrono::seconds(20)};
  Stream stream(dial_abstract(name, patience).socket);
  ADAPTDL_CHECK(stream);
  const size_t length = std::min<size_t>(input.size(), 4096);
  send_whole(stream, {reinterpret_cast<const char*>(input.data()), length}, patience);
  shutdown(stream.fd(), SHUT_WR);
  uint8_t bytes[256];
  size_t said = 0;
  while (patience.wait(stream.fd(), POLLIN)) {
    const ssize_t got = ::recv(stream.fd(), bytes, sizeof bytes, 0);
    if (got <= 0) break;
    said += static_cast<size_t>(got);
  }
  ADAPTDL_CHECK(Monotonic::now() < patience.deadline && said <= kProofBytes);
}

void endpoint(Bytes input) {
  const auto json = nlohmann::json::parse(input.begin(), input.end(), nullptr, false);
  if (json.is_discarded()) return;
  try {
    const Endpoint parsed = parse_endpoint(json);
    ADAPTDL_CHECK(to_json(parse_endpoint(to_json(parsed))) == to_json(parsed));
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes input(data + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
    case 1:
      messages(input);
      break;
    case 2:
      challenge(input, false);
      break;
    case 3:
      challenge(input, true);
      break;
    case 4:
      control(input, data[0] / 8 + 1);
      break;
    case 5:
      stream(input, data[0] / 8 % 2 + 1);
      break;
    case 6:
      listener(input);
      break;
    default:
      endpoint(input);
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  Hello hello;
  hello.generation = 5;
  hello.from = 1;
  hello.size = 2;
  const std::string block = encode(BlockHeader{BlockKind::gather, 7, 3, 0, 16});
  const std::string abort = encode(ControlMessage{ControlKind::abort, 5, 0, "reason"});
  const std::string leave = encode(ControlMessage{ControlKind::leave, 5, 12, ""});
  const std::string proof = encode(Proof{});
  const std::vector<std::string> bodies = {
      encode(hello),
      proof,
      encode(Verdict{Status::stale, 9}),
      encode(SegmentOffer{5, 2, 8, 4096}),
      block + std::string(16, 'x') + encode(BlockHeader{BlockKind::gather, 7, 3, 1, 16, 1}),
      abort + leave + abort,
      encode(hello) + proof,
      to_json(Endpoint{"host", "node", "name", {{"127.0.0.1", 80, "lo"}, {"::1", 81, "lo"}}})
          .dump()};
  FuzzSeeds seeds;
  for (char kind = 0; kind < 16; ++kind) {
    for (const std::string& body : bodies) seeds.inputs.push_back(kind + body);
  }
  seeds.words = {"ADc1",
                 "ADc2",
                 "ADc3",
                 "ADc4",
                 "ADc5",
                 "ADc6",
                 "\"tcp\"",
                 "\"port\"",
                 std::string(8, '\0'),
                 std::string(8, '\xff')};
  return seeds;
}
