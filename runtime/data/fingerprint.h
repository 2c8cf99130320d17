#pragma once

// Tells whether replicas, or a run that continues, have the same data.

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/rng.h"
#include "core/formats/crc32c.h"

namespace adaptdl::data {

// Sums up numbers and texts, in order: others almost surely have another value.
class Digest {
 public:
  void add(uint64_t number) { value_ = splitmix64(value_ ^ number); }
  void add(std::span<const std::byte> bytes) {
    add(bytes.size());
    add(crc32c(bytes));
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// Of a data set.
struct Fingerprint {
  int64_t samples = 0;
  uint64_t content = 0;  // of its files, not of what the settings make of them; 0: there are none

  bool operator==(const Fingerprint&) const = default;
};

}  // namespace adaptdl::data
