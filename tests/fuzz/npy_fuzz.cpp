#include "runtime/data/formats/readers.h"
#include "tests/fuzz/data_fuzz_column.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/fixtures.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    data::read_some_rows(data::read_npy(std::as_bytes(std::span(data, size)), "fuzz", nullptr));
  } catch (const Error&) {
    // refused: what a wrong file deserves
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{fixtures::npy("<f4", "(3, 2)", std::string(24, 'x')),
           fixtures::npy(">i8", "(6,)", std::string(48, 'x')), fixtures::npy("|b1", "()", "x"),
           fixtures::npy("{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3, 2), }",
                         std::string(24, 'x'), 2)},
          {"'descr'", "'fortran_order'", "'shape'", "True", "False", "(", ")", ", ", "'", "0, ",
           "4611686018427387904, ", "-1", "L", "<f8", ">u4", "|O"}};
}
