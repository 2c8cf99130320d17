#pragma once

// Random numbers that are the same on every machine and with every standard library, whose
// distributions differ. For tests, simulations and searches; not for secrets.

#include <cstdint>

namespace adaptdl {

// splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014):
// 2^64 numbers from any seed, each once. One thread at a time. Every call draws one number, so how
// far the sequence has come depends on the number of calls alone.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  // 64 independent bits.
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // A multiple of 2^-53 in [0, 1), all equally likely.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // An integer in [0, count). Requires: count >= 1. Some are likelier than others by a share of
  // count / 2^64.
  uint64_t below(uint64_t count) { return bits() % count; }

  // True with that probability: never for 0, always for 1.
  bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace adaptdl
