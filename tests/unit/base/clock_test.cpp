#include "core/base/clock.h"

#include <doctest/doctest.h>

namespace adaptdl {
namespace {

TEST_CASE("times are read and written as the API does") {
  const auto time = parse_rfc3339("2026-01-31T08:05:09.123456Z");
  REQUIRE(time);
  CHECK(rfc3339(*time, 0) == "2026-01-31T08:05:09Z");
  CHECK(rfc3339(*time, 6) == "2026-01-31T08:05:09.123456Z");
  CHECK(parse_rfc3339("2026-01-31T10:05:09.123456789+02:00") > time);
  CHECK(*parse_rfc3339("2026-01-31T10:05:09+02:00") == *parse_rfc3339("2026-01-31T08:05:09Z"));
  CHECK(*parse_rfc3339("2026-01-31T03:35:09-04:30") == *parse_rfc3339("2026-01-31T08:05:09z"));
  CHECK(rfc3339(*parse_rfc3339("2024-02-29T00:00:00Z"), 6) == "2024-02-29T00:00:00.000000Z");
  for (const char* wrong :
       {"", "2026", "2026-01-31", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z",
        "2026-01-31T24:00:00Z", "2026-01-31T08:05:09", "2026-01-31T08:05:09.Z",
        "2026-01-31T08:05:09Zx", "2026-01-31T08:05:09+0200", "1969-01-01T00:00:00Z"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_rfc3339(wrong));
  }
}

TEST_CASE("times there and back") {
  CHECK(parse_rfc3339_s(rfc3339(1'700'000'000)) == 1'700'000'000);
  CHECK_FALSE(parse_rfc3339_s("-"));
  CHECK_FALSE(parse_rfc3339_s("yesterday"));
}

TEST_CASE("digits of a second are cut off, not rounded") {
  const WallTime time = *parse_rfc3339("2026-01-31T08:05:09.999999999Z");
  CHECK(rfc3339(time) == "2026-01-31T08:05:09.999Z");
  CHECK(rfc3339(time, 1) == "2026-01-31T08:05:09.9Z");
  CHECK(rfc3339(time, 9) == "2026-01-31T08:05:09.999999999Z");
}

}  // namespace
}  // namespace adaptdl
