#include "core/job/quantity.h"

#include <doctest/doctest.h>
#include <limits>

#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

TEST_CASE("quantities are those of Kubernetes") {
  struct Case {
    const char* text;
    int64_t whole, milli;
  };
  const Case cases[] = {
      {"0", 0, 0},
      {"1", 1, 1000},
      {"+2", 2, 2000},
      {"500m", 1, 500},
      {"1500m", 2, 1500},
      {"0.5", 1, 500},
      {".5", 1, 500},
      {"1.", 1, 1000},
      {"1.0005", 2, 1001},
      {"100u", 1, 1},
      {"1n", 1, 1},
      {"2k", 2000, 2'000'000},
      {"40G", 40'000'000'000, 40'000'000'000'000},
      {"1Ki", 1024, 1'024'000},
      {"1.5Gi", 1610612736, 1610612736000},
      {"0.1Ki", 103, 102'400},
      {"1e3", 1000, 1'000'000},
      {"1E3", 1000, 1'000'000},
      {"1e+3", 1000, 1'000'000},
      {"12e-1", 2, 1200},
      {"1e-30", 1, 1},
      {"0e99", 0, 0},
      {"0.000", 0, 0},
      {"00012.50000", 13, 12500},
      {"1P", 1'000'000'000'000'000, 1'000'000'000'000'000'000},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(parse_quantity(c.text, "x") == c.whole);
    CHECK(parse_quantity_milli(c.text, "x") == c.milli);
  }
  CHECK(parse_quantity("1E", "x") == 1'000'000'000'000'000'000);
  CHECK(parse_quantity("7Ei", "x") == int64_t{7} << 60);
  CHECK(parse_quantity("9223372036854775807", "x") == std::numeric_limits<int64_t>::max());
}

TEST_CASE("what is no quantity is refused with what is allowed") {
  for (const char* text : {"", ".", "m", "1K", "1kb", "1 Gi", " 1", "1.2.3", "0x10", "1e", "e3",
                           "1e1000", "1e3m", "1ki", "NaN", "inf", "1,5", "--1"}) {
    CAPTURE(text);
    CHECK_ERROR(parse_quantity(text, "f:3: memory"), "f:3: memory: ");
    CHECK_ERROR(parse_quantity(text, "f:3: memory"), "1.5Gi");
  }
  CHECK_ERROR(parse_quantity("-1", "x"), "negative");
  CHECK_ERROR(parse_quantity("9223372036854775808", "x"), "too large");
  CHECK_ERROR(parse_quantity("8Ei", "x"), "too large");
  CHECK_ERROR(parse_quantity("1e99", "x"), "too large");
  CHECK_ERROR(parse_quantity_milli("9300P", "x"), "too large");
  CHECK_ERROR(parse_quantity("123456789012345678901", "x"), "too many digits");
}
