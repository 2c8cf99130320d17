// In place of driver.cpp where libFuzzer feeds a target, which has a main function of its own and
// knows only files:
//
//   fuzz_X --seeds=DIR
//
// writes the target's seeds to DIR, which exists, and its words to DIR.dict, libFuzzer's
// dictionary.

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/fuzz.h"

namespace {

std::string quoted(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    char piece[5];
    std::snprintf(piece, sizeof piece, "\\x%02x", static_cast<unsigned char>(c));
    text += piece;
  }
  return text + "\"\n";
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return;
  std::fprintf(stderr, "%s: cannot write\n", path.c_str());
  std::exit(1);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kFlag)) continue;
    const std::string folder(argument.substr(kFlag.size()));
    const FuzzSeeds seeds = fuzz_seeds();
    for (size_t at = 0; at < seeds.inputs.size(); ++at) {
      write(folder + "/seed-" + std::to_string(at), seeds.inputs[at]);
    }
    std::string words;
    for (const std::string& word : seeds.words) {
      if (!word.empty()) words += quoted(word);
    }
    write(folder + ".dict", words);
    std::exit(0);
  }
  return 0;
}
