#include "runtime/comm/cpu/wire.h"

#include <algorithm>
#include <cstring>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/net/tcp.h"

namespace adaptdl::comm {
namespace {

constexpr uint32_t kHelloMagic = 0x31634441;    // "ADc1"
constexpr uint32_t kProofMagic = 0x32634441;    // "ADc2"
constexpr uint32_t kVerdictMagic = 0x33634441;  // "ADc3"
constexpr uint32_t kSegmentMagic = 0x34634441;  // "ADc4"
constexpr uint32_t kBlockMagic = 0x35634441;    // "ADc5"
constexpr uint32_t kControlMagic = 0x36634441;  // "ADc6"

class Writer {
 public:
  explicit Writer(uint32_t magic) { number(magic, 4); }
  Writer& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Writer& raw(Bytes bytes) {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  std::string done(size_t expected) {
    ADAPTDL_CHECK(text_.size() == expected);
    return std::move(text_);
  }

 private:
  std::string text_;
};

// Reads a message of exactly `size` bytes; after any mismatch valid() stays false.
class Reader {
 public:
  Reader(Bytes bytes, uint32_t magic, size_t size) : rest_(bytes) {
    valid_ = bytes.size() == size;
    require(number(4) == magic);
  }
  uint64_t number(int bytes) {
    if (rest_.size() < static_cast<size_t>(bytes)) {
      valid_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(rest_[i]) << (8 * i);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  void raw(std::span<uint8_t> out) {
    if (rest_.size() < out.size()) {
      valid_ = false;
      return;
    }
    std::copy_n(rest_.begin(), out.size(), out.begin());
    rest_ = rest_.subspan(out.size());
  }
  void require(bool condition) { valid_ = valid_ && condition; }
  bool valid() const { return valid_; }

 private:
  Bytes rest_;
  bool valid_;
};

Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::array<uint8_t, 32> prove(std::string_view secret, std::string_view label,
                              std::string_view hello, const Nonce& nonce) {
  std::string message(label);
  message += hello;
  message.append(reinterpret_cast<const char*>(nonce.data()), nonce.size());
  return hmac_sha256(as_bytes(secret), as_bytes(message));
}

constexpr std::string_view kListenerLabel = "adaptdl comm listener 1";
constexpr std::string_view kConnectorLabel = "adaptdl comm connector 1";

}  // namespace

std::string encode(const Hello& hello) {
  return Writer(kHelloMagic)
      .number(kWireVersion, 2)
      .number(static_cast<uint8_t>(hello.kind), 2)
      .number(hello.generation, 8)
      .number(hello.from, 4)
      .number(hello.to, 4)
      .number(hello.size, 4)
      .number(hello.links, 2)
      .number(0, 2)
      .raw(hello.nonce)
      .done(kHelloBytes);
}

std::optional<Hello> parse_hello(Bytes bytes) {
  Reader reader(bytes, kHelloMagic, kHelloBytes);
  Hello hello;
  reader.require(reader.number(2) == kWireVersion);
  const uint64_t kind = reader.number(2);
  reader.require(kind == 1 || kind == 2);
  hello.kind = static_cast<LinkKind>(kind);
  hello.generation = reader.number(8);
  hello.from = static_cast<uint32_t>(reader.number(4));
  hello.to = static_cast<uint32_t>(reader.number(4));
  hello.size = static_cast<uint32_t>(reader.number(4));
  hello.links = static_cast<uint16_t>(reader.number(2));
  reader.require(hello.links >= 1 && hello.links <= kMaxLinks && reader.number(2) == 0);
  reader.raw(hello.nonce);
  reader.require(hello.size <= kMaxRanks && hello.from < hello.size && hello.to < hello.from);
  if (!reader.valid()) return std::nullopt;
  return hello;
}

std::string encode(const Proof& proof) {
  return Writer(kProofMagic).number(0, 4).raw(proof.nonce).raw(proof.proof).done(kProofBytes);
}

std::optional<Proof> parse_proof(Bytes bytes) {
  Reader reader(bytes, kProofMagic, kProofBytes);
  Proof proof;
  reader.require(reader.number(4) == 0);
  reader.raw(proof.nonce);
  reader.raw(proof.proof);
  if (!reader.valid()) return std::nullopt;
  return proof;
}

std::string encode(const Verdict& verdict) {
  return Writer(kVerdictMagic)
      .number(static_cast<uint32_t>(verdict.status), 4)
      .number(verdict.generation, 8)
      .done(kVerdictBytes);
}

std::optional<Verdict> parse_verdict(Bytes bytes) {
  Reader reader(bytes, kVerdictMagic, kVerdictBytes);
  const uint64_t status = reader.number(4);
  reader.require(status <= 2);
  Verdict verdict{static_cast<Status>(status), reader.number(8)};
  if (!reader.valid()) return std::nullopt;
  return verdict;
}

std::string encode(const SegmentOffer& offer) {
  return Writer(kSegmentMagic)
      .number(offer.lanes, 4)
      .number(offer.generation, 8)
      .number(offer.buffers, 4)
      .number(offer.chunk_bytes, 4)
      .done(kSegmentOfferBytes);
}

std::optional<SegmentOffer> parse_segment_offer(Bytes bytes) {
  Reader reader(bytes, kSegmentMagic, kSegmentOfferBytes);
  SegmentOffer offer;
  offer.lanes = static_cast<uint32_t>(reader.number(4));
  offer.generation = reader.number(8);
  offer.buffers = static_cast<uint32_t>(reader.number(4));
  offer.chunk_bytes = static_cast<uint32_t>(reader.number(4));
  if (!reader.valid()) return std::nullopt;
  return offer;
}

std::string encode(const BlockHeader& header) {
  return Writer(kBlockMagic)
      .number(static_cast<uint32_t>(header.kind), 4)
      .number(header.generation, 8)
      .number(header.call, 8)
      .number(header.index, 8)
      .number(header.bytes, 8)
      .number(header.sequence, 8)
      .done(kBlockHeaderBytes);
}

std::optional<BlockHeader> parse_block_header(Bytes bytes) {
  Reader reader(bytes, kBlockMagic, kBlockHeaderBytes);
  BlockHeader header;
  const uint64_t kind = reader.number(4);
  reader.require(kind >= 1 && kind <= 5);
  header.kind = static_cast<BlockKind>(kind);
  header.generation = reader.number(8);
  header.call = reader.number(8);
  header.index = reader.number(8);
  header.bytes = reader.number(8);
  header.sequence = reader.number(8);
  if (!reader.valid()) return std::nullopt;
  return header;
}

std::string encode(const ControlMessage& message) {
  const std::string_view text = std::string_view(message.text).substr(0, kMaxControlText);
  return Writer(kControlMagic)
      .number(static_cast<uint32_t>(message.kind), 4)
      .number(message.generation, 8)
      .number(message.value, 8)
      .number(text.size(), 4)
      .number(0, 4)
      .raw(as_bytes(text))
      .done(kControlHeaderBytes + text.size());
}

bool ControlParser::feed(Bytes bytes) {
  if (broken_) return false;
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (buffer_.size() >= kControlHeaderBytes) {
    Reader reader(as_bytes(buffer_).first(kControlHeaderBytes), kControlMagic, kControlHeaderBytes);
    ControlMessage message;
    const uint64_t kind = reader.number(4);
    reader.require(kind == 1 || kind == 2);
    message.kind = static_cast<ControlKind>(kind);
    message.generation = reader.number(8);
    message.value = reader.number(8);
    const uint64_t length = reader.number(4);
    reader.require(reader.number(4) == 0 && length <= kMaxControlText);
    if (!reader.valid()) {
      broken_ = true;
      buffer_.clear();
      return false;
    }
    if (buffer_.size() < kControlHeaderBytes + length) break;
    message.text = buffer_.substr(kControlHeaderBytes, length);
    buffer_.erase(0, kControlHeaderBytes + length);
    ready_.push_back(std::move(message));
  }
  return true;
}

std::optional<ControlMessage> ControlParser::next() {
  if (ready_.empty()) return std::nullopt;
  ControlMessage message = std::move(ready_.front());
  ready_.pop_front();
  return message;
}

size_t ServerHandshake::wanted() const {
  switch (state_) {
    case State::hello:
      return kHelloBytes;
    case State::answer:
      return kProofBytes;
    default:
      return 0;
  }
}

ServerHandshake::State ServerHandshake::feed(std::string_view secret, Bytes bytes,
                                             std::string& reply) {
  reply.clear();
  if (state_ == State::hello) {
    const auto hello = parse_hello(bytes);
    if (!hello) return state_ = State::refused;
    hello_ = *hello;
    hello_bytes_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    reply = encode(Proof{nonce_, prove(secret, kListenerLabel, hello_bytes_, nonce_)});
    return state_ = State::answer;
  }
  if (state_ == State::answer) {
    const auto answer = parse_proof(bytes);
    const auto expected = prove(secret, kConnectorLabel, hello_bytes_, nonce_);
    const bool proven = answer && equal_constant_time(answer->proof, expected);
    return state_ = proven ? State::proven : State::refused;
  }
  return state_;
}

std::optional<std::string> answer_challenge(std::string_view secret, const Hello& hello,
                                            Bytes challenge) {
  const auto theirs = parse_proof(challenge);
  const std::string said = encode(hello);
  if (!theirs ||
      !equal_constant_time(theirs->proof, prove(secret, kListenerLabel, said, theirs->nonce))) {
    return std::nullopt;
  }
  return encode(Proof{{}, prove(secret, kConnectorLabel, said, theirs->nonce)});
}

}  // namespace adaptdl::comm
