#pragma once

// Keyed digests and randomness for the challenge that opens every connection of a run.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

using Sha256Digest = std::array<uint8_t, 32>;

// HMAC-SHA256 (RFC 2104) of `message` under `key`; any lengths. Thread-safe.
Sha256Digest hmac_sha256(std::span<const uint8_t> key, std::span<const uint8_t> message);

// SHA-256 (FIPS 180-4) of `message`. Thread-safe.
Sha256Digest sha256(std::span<const uint8_t> message);

// The same of bytes that come in pieces. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view bytes);
  Sha256Digest finish();  // of everything added; add nothing after it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether both hold the same bytes, in a time that depends on the lengths only.
bool equal_constant_time(std::span<const uint8_t> a, std::span<const uint8_t> b);

// Fills `bytes` from the kernel's random generator. Throws Error if the kernel refuses.
void random_bytes(std::span<uint8_t> bytes);
std::vector<uint8_t> random_bytes(size_t count);

// Lower-case hexadecimal, two digits a byte. from_hex accepts both cases and throws an Error naming
// `what` for an odd length or another character.
std::string to_hex(std::span<const uint8_t> bytes);
std::vector<uint8_t> from_hex(std::string_view text, std::string_view what);

// The bytes of a text, for the functions above. Borrows.
inline std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace adaptdl
