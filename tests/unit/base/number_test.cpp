#include "core/base/number.h"

#include <clocale>
#include <cmath>

#include "tests/unit/base/expect_error.h"

namespace adaptdl {

TEST_CASE("integers take the whole text, within bounds") {
  CHECK(parse_int("-12", "n") == -12);
  CHECK(parse_unsigned("18446744073709551615", "n") == UINT64_MAX);
  CHECK(parse_int("9", "n", 1, 9) == 9);
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "0x10", "1e3", "9223372036854775808"}) {
    CAPTURE(bad);
    CHECK_ERROR(parse_int(bad, "--n"), "--n: '");
  }
  CHECK_ERROR(parse_unsigned("-1", "--n"), "'-1' is not allowed; give an integer");
  CHECK_ERROR(parse_int("10", "--n", 1, 9), "give an integer from 1 to 9");
  CHECK_ERROR(parse_int("0", "--n", 1), "give an integer of at least 1");
}

TEST_CASE("numbers are finite and do not depend on the locale") {
  const char* locales[] = {"C", "de_DE.UTF-8"};
  for (const char* locale : locales) {
    std::setlocale(LC_ALL, locale);  // where not installed, the C locale is tried twice
    CHECK(parse_double("0.5", "x") == 0.5);
    CHECK(parse_double("-1e-3", "x") == -0.001);
    CHECK(format_number(0.1) == "0.1");
    CHECK(format_bytes(1536) == "1.5 KiB");
  }
  std::setlocale(LC_ALL, "C");
  for (const char* bad : {"inf", "nan", "0,5", "", "1e999", ".", "1 "}) {
    CAPTURE(bad);
    CHECK_ERROR(parse_double(bad, "x"), "give a number");
  }
  CHECK_ERROR(parse_double("2", "x", 0, 1), "from 0 to 1");
}

TEST_CASE("what is printed reads back as the same number") {
  for (const double value : {0.1, 1.0 / 3.0, 1e-300, 123456789.0, -0.0, 5e-324}) {
    CHECK(parse_double(format_number(value), "x") == value);
  }
}

TEST_CASE("byte sizes") {
  CHECK(parse_bytes("4096", "x") == 4096);
  CHECK(parse_bytes("10 MiB", "x") == 10u << 20);
  CHECK(parse_bytes("10MB", "x") == 10'000'000);
  CHECK(parse_bytes("1.5g", "x") == 3u << 29);
  CHECK(parse_bytes("7 b", "x") == 7);
  CHECK(parse_bytes("2Ki", "x") == 2048);
  CHECK(parse_bytes("18446744073709551615", "x") == UINT64_MAX);
  for (const char* bad : {"", "x", "1 zb", "-1", "1 MiB x", "1e3", "99999999999 PiB", "1 M M"}) {
    CAPTURE(bad);
    CHECK_ERROR(parse_bytes(bad, "--size"), "--size: '");
  }
  CHECK_ERROR(parse_bytes("1", "x", 10, 20), "from 10 to 20 bytes");
}

TEST_CASE("durations") {
  CHECK(parse_duration("90", "x") == 90.0);
  CHECK(parse_duration("1.5h", "x") == 5400.0);
  CHECK(parse_duration("500ms", "x") == doctest::Approx(0.5));
  CHECK(parse_duration("2m 30s", "x") == 150.0);
  CHECK(parse_duration("1d2h", "x") == 93600.0);
  for (const char* bad : {"", "x", "1 week", "-1", "1h-", "inf", "nan", "s"}) {
    CAPTURE(bad);
    CHECK_ERROR(parse_duration(bad, "--every"), "--every: '");
  }
}

TEST_CASE("numbers for people") {
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1024) == "1.0 KiB");
  CHECK(format_bytes((1u << 20) - 1) == "1.0 MiB");
  CHECK(format_bytes(UINT64_MAX) == "16.0 EiB");
  CHECK(format_duration(0) == "0 s");
  CHECK(format_duration(0.00025) == "250 us");
  CHECK(format_duration(0.0125) == "12.5 ms");
  CHECK(format_duration(0.45) == "450 ms");
  CHECK(format_duration(4.23) == "4.2 s");
  CHECK(format_duration(59.96) == "1 m 00 s");
  CHECK(format_duration(123) == "2 m 03 s");
  CHECK(format_duration(3725) == "1 h 02 m");
  CHECK(format_duration(3 * 86400 + 4 * 3600) == "3 d 04 h");
  CHECK(format_duration(NAN) == "?");
  CHECK(format_rate(3.14159, "steps") == "3.14 steps/s");
  CHECK(format_rate(12345, "samples") == "12.3 k samples/s");
  CHECK(format_rate(250, "samples") == "250 samples/s");
  CHECK(format_rate(999.7, "B") == "1.00 k B/s");
}

}  // namespace adaptdl
