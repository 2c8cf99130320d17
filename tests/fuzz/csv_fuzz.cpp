#include "runtime/data/formats/readers.h"
#include "tests/fuzz/data_fuzz_column.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = std::as_bytes(std::span(data, size));
  for (const data::DType type : {data::DType::float32, data::DType::float64, data::DType::int64}) {
    for (int header = 0; header < 2; ++header) {
      data::CsvOptions options{header, {}, type};
      if (header > 0) options.columns = {{1, 3}};
      try {
        const data::Array array = data::read_csv(text, "fuzz", options);
        ADAPTDL_CHECK(array.shape[0] >= 1);
        data::read_some_rows(array);
      } catch (const Error&) {
        // refused: what a wrong file deserves
      }
    }
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{"a,b,c\r\n1,2,3\r\n-4e5,\"6\",7.5\r\n", "1\n2\n3\n", "1,2,3,x\n4,5,6,\"a\"\"b,\n\"\n"},
          {",", "\"", "\"\"", "\r\n", "\n", "1e999", "nan", "-inf", "9223372036854775808", "+", " ",
           "\xef\xbb\xbf"}};
}
