#pragma once

// Random numbers that are the same on every machine and with every standard library, whose
// distributions differ. For tests, simulations, searches and the order of samples; not for secrets.

#include <cstdint>

namespace adaptdl {

inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio

// The output function of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014): a bijection in which every bit of the argument changes half of the
// result's. Orders of samples in checkpoints depend on it.
inline uint64_t mix_bits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// One step of splitmix64 from the state `value`: random bits as a pure function of a number.
inline uint64_t splitmix64(uint64_t value) {
  return mix_bits(value + kGolden);
}

// A number in [0, range) from 64 random bits (Lemire's multiplication).
inline uint64_t reduce(uint64_t random, uint64_t range) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * range) >> 64);
}

// splitmix64 as a generator: 2^64 numbers from any seed, each once. One thread at a time. Every
// call draws one number, so how far the sequence has come depends on the number of calls alone.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  // 64 independent bits.
  uint64_t bits() { return mix_bits(state_ += kGolden); }

  // A multiple of 2^-53 in [0, 1), all equally likely.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // An integer in [0, count). Requires: count >= 1. The bias is at most count / 2^64.
  uint64_t below(uint64_t count) { return bits() % count; }

  // True with that probability: never for 0, always for 1.
  bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace adaptdl
