#pragma once

// A fuzz target is a file with these two functions; driver.cpp feeds it, or libFuzzer does
// (libfuzzer_seeds.cpp).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Must return 0 for every input; a crash, an exception or a hang is what is looked for.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

struct FuzzSeeds {
  std::vector<std::string> inputs;  // sound ones, to be mutated
  std::vector<std::string> words;   // pieces that the format knows, to be put in
};
FuzzSeeds fuzz_seeds();

inline std::string_view fuzz_text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A frame as of core/launch/io/protocol.h, whatever the text.
inline std::string fuzz_frame(const std::string& text) {
  std::string size(4, '\0');
  for (size_t i = 0; i < 4; ++i) size[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return size + text;
}
