#pragma once

// The wire format between members: integers are little-endian, messages have a fixed size (except
// for the text of an abort). Parsing and the challenge need no sockets here, so that they can be
// fuzzed.
//
//   connector                          listener
//   Hello (who, which generation, nonce) ->
//                                      <- Challenge (nonce, proof of the secret)
//   Answer (proof of the secret) ->
//                                      <- Verdict (once its own connect() has taken the link)
//
// proof = HMAC-SHA256(secret, label + Hello + listener's nonce), with a different label for each
// side, so that a proof cannot be reflected. Every later message carries the generation.

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace adaptdl::comm {

inline constexpr uint16_t kWireVersion = 2;
inline constexpr uint32_t kMaxRanks = 65536;

using Bytes = std::span<const uint8_t>;
using Nonce = std::array<uint8_t, 32>;

enum class LinkKind : uint8_t { control = 1, data = 2 };

struct Hello {
  LinkKind kind = LinkKind::control;
  uint64_t generation = 0;
  uint32_t from = 0, to = 0, size = 0;  // ranks, and members of the group: from, to < size
  uint16_t links = 1;                   // for data, between two hosts; at most kMaxLinks
  Nonce nonce{};
};
inline constexpr size_t kHelloBytes = 64;
std::string encode(const Hello& hello);
std::optional<Hello> parse_hello(Bytes bytes);

struct Proof {  // Challenge (with the listener's nonce) and Answer (nonce all zero)
  Nonce nonce{};
  std::array<uint8_t, 32> proof{};
};
inline constexpr size_t kProofBytes = 72;
std::string encode(const Proof& proof);
std::optional<Proof> parse_proof(Bytes bytes);

enum class Status : uint32_t { ok = 0, stale = 1, wrong_place = 2 };
struct Verdict {
  Status status = Status::ok;
  uint64_t generation = 0;  // the newest that the listener's process has requested
};
inline constexpr size_t kVerdictBytes = 16;
std::string encode(const Verdict& verdict);
std::optional<Verdict> parse_verdict(Bytes bytes);

// Accompanies the descriptor of the shared memory segment.
struct SegmentOffer {
  uint64_t generation = 0;
  uint32_t lanes = 0;
  uint32_t buffers = 0;
  uint32_t chunk_bytes = 0;
};
inline constexpr size_t kSegmentOfferBytes = 24;
std::string encode(const SegmentOffer& offer);
std::optional<SegmentOffer> parse_segment_offer(Bytes bytes);

// Precedes every block of data between hosts.
enum class BlockKind : uint32_t { partial = 1, final = 2, gather = 3, broadcast = 4, barrier = 5 };
struct BlockHeader {
  BlockKind kind = BlockKind::partial;
  uint64_t generation = 0;
  uint64_t call = 0;   // which collective of this communicator, from 1
  uint64_t index = 0;  // chunk or round within it
  uint64_t bytes = 0;
  uint64_t sequence = 0;  // of the sender's blocks for this host, from 0
  bool operator==(const BlockHeader&) const = default;
};
inline constexpr size_t kBlockHeaderBytes = 48;
std::string encode(const BlockHeader& header);
std::optional<BlockHeader> parse_block_header(Bytes bytes);

// On control links.
enum class ControlKind : uint32_t {
  abort = 1,  // the generation is over; text is the reason
  leave = 2,  // orderly end; value: how many collectives the sender has finished
};
struct ControlMessage {
  ControlKind kind = ControlKind::abort;
  uint64_t generation = 0;
  uint64_t value = 0;
  std::string text;  // truncated to kMaxControlText bytes
};
inline constexpr size_t kControlHeaderBytes = 32;
inline constexpr size_t kMaxControlText = 512;
std::string encode(const ControlMessage& message);

// Assembles control messages from pieces of the stream. After an error it stays broken.
class ControlParser {
 public:
  // False when the stream is malformed.
  bool feed(Bytes bytes);
  std::optional<ControlMessage> next();

 private:
  std::string buffer_;
  std::deque<ControlMessage> ready_;
  bool broken_ = false;
};

// The listener's side of the challenge. Feed it exactly wanted() bytes at a time and send what it
// puts in `reply`.
class ServerHandshake {
 public:
  enum class State { hello, answer, proven, refused };
  explicit ServerHandshake(const Nonce& nonce) : nonce_(nonce) {}

  size_t wanted() const;  // 0 when proven or refused
  State feed(std::string_view secret, Bytes bytes, std::string& reply);
  State state() const { return state_; }
  const Hello& hello() const { return hello_; }  // trusted only once proven

 private:
  State state_ = State::hello;
  Nonce nonce_;
  Hello hello_;
  std::string hello_bytes_;
};

// The connector's side: its Answer to a Challenge, or nothing if the listener does not know the
// secret.
std::optional<std::string> answer_challenge(std::string_view secret, const Hello& hello,
                                            Bytes challenge);

}  // namespace adaptdl::comm
