#pragma once

// Random bits as a pure function of a number: splitmix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, 2014). The orders of samples in checkpoints depend on it.

#include <cstdint>

namespace adaptdl::data {

inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// Its output function: a bijection in which every bit of the argument changes half of the result's.
inline uint64_t mix_bits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// One step from the state `value`.
inline uint64_t splitmix(uint64_t value) {
  return mix_bits(value + kGolden);
}

// A number in [0, range) from 64 random bits (Lemire's multiplication).
inline uint64_t reduce(uint64_t random, uint64_t range) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * range) >> 64);
}

}  // namespace adaptdl::data
