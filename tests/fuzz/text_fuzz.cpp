#include "core/base/error.h"
#include "runtime/data/formats/readers.h"
#include "tests/fuzz/data_fuzz_column.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

// The vocabulary, a zero byte, the text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view whole = fuzz_text(data, size);
  const std::string_view vocabulary = whole.substr(0, whole.find('\0'));
  const std::string_view text = whole.substr(std::min(whole.size(), vocabulary.size() + 1));
  for (const bool words : {false, true}) {
    try {
      data::read_some_rows(data::read_text(text, "fuzz", vocabulary, "fuzz", words));
    } catch (const Error&) {
      // refused: what a wrong file deserves
    }
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{std::string("a\nab\n<unk>\n\\n\0abab\nc", 21), std::string("the\ncat\n.\0the cat.", 18)},
          {"<unk>\n", "\\n", "\\\\", "\xc3\xa9", "\xe2\x82", "\r\n", "\n"}};
}
