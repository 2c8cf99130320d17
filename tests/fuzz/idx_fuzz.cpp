#include "runtime/data/formats/readers.h"
#include "tests/fuzz/data_fuzz_column.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/fixtures.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    data::read_some_rows(data::read_idx(std::as_bytes(std::span(data, size)), "fuzz", nullptr));
  } catch (const Error&) {
    // refused: what a wrong file deserves
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{fixtures::idx(0x08, {4, 2}, std::string(8, 'x')),
           fixtures::idx(0x0e, {3}, std::string(24, 'x')),
           fixtures::idx(0x0b, {2, 1, 1, 2}, std::string(8, 'x'))},
          {std::string("\0\0\x08\x01", 4), "\xff\xff\xff\xff", std::string(4, '\0')}};
}
