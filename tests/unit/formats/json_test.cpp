#include "core/formats/json.h"

#include "tests/unit/base/expect_error.h"

namespace adaptdl {

TEST_CASE("JSON that is not sound is refused with its place") {
  CHECK(parse_json(R"({"a": [1, 2.5, "x", null]})", "f").size() == 1);
  CHECK_ERROR(parse_json("{\n \"a\": 1,,\n}", "state.json"), "state.json: line 2, column 9: not");
  CHECK_ERROR(parse_json("", "f"), "line 1, column 1");
  CHECK_ERROR(parse_json("{} {}", "f"), "not valid JSON");
  CHECK_ERROR(parse_json("\"\xff\"", "f"), "not valid JSON");
  CHECK_ERROR(parse_json("[1e999]", "f"), "not valid JSON");
}

TEST_CASE("JSON is bounded in size and depth") {
  CHECK_ERROR(parse_json("[1,2,3]", "f", {.max_bytes = 6}), "7 bytes of JSON");
  const std::string deep = std::string(100'000, '[');
  CHECK_ERROR(parse_json(deep, "f"), "column 65: nested more than 64 deep");
  const std::string allowed = std::string(64, '[') + std::string(64, ']');
  CHECK(parse_json(allowed, "f").is_array());
  CHECK(parse_json(R"(["[[[[{{{{\"[[[["])", "f", {.max_depth = 1}).size() == 1);
}

TEST_CASE("members are read by type, and complaints name the key") {
  const Json object = parse_json(
      R"({"n": 3, "big": 18446744073709551615, "neg": -1, "x": 0.5, "t": "yes", "b": true,
          "list": [1, 2], "none": null, "o": {"k": 1}})",
      "f");
  CHECK(json_get<int>(object, "n", "f") == 3);
  CHECK(json_get<uint64_t>(object, "big", "f") == UINT64_MAX);
  CHECK(json_get<int64_t>(object, "neg", "f") == -1);
  CHECK(json_get<double>(object, "n", "f") == 3.0);
  CHECK(json_get<std::string>(object, "t", "f") == "yes");
  CHECK(json_get<bool>(object, "b", "f"));
  CHECK(json_get<std::vector<int>>(object, "list", "f") == std::vector<int>{1, 2});
  CHECK(json_get<Json>(object, "o", "f").size() == 1);
  CHECK(json_get_or<int>(object, "none", "f", 7) == 7);
  CHECK(json_get_or<int>(object, "absent", "f", 7) == 7);
  CHECK_FALSE(json_find<int>(object, "absent", "f"));

  CHECK_ERROR(json_get<int>(object, "absent", "hello"), "hello: absent is missing");
  CHECK_ERROR(json_get<int>(object, "big", "f"), "big: 18446744073709551615 is not allowed");
  CHECK_ERROR(json_get<int64_t>(object, "big", "f"), "an integer from -9223372036854775808 to");
  const Json made_here = {{"n", int64_t{4}}};  // signed, unlike what was parsed
  CHECK(json_get<uint64_t>(made_here, "n", "f") == 4);
  CHECK_ERROR(json_get<uint32_t>(object, "neg", "f"), "neg: -1 is not allowed");
  CHECK_ERROR(json_get<uint8_t>(parse_json(R"({"n": 256})", "f"), "n", "f"), "from 0 to 255");
  CHECK_ERROR(json_get<int>(object, "x", "f"), "x: 0.5 is not allowed");
  CHECK_ERROR(json_get<std::string>(object, "n", "f"), "it must be text");
  CHECK_ERROR(json_get<std::vector<std::string>>(object, "list", "f"), "list: 1 is not allowed");
  CHECK_ERROR(json_get<int>(Json(3), "n", "f"), "is not an object");
}

TEST_CASE("printing never throws") {
  CHECK(dump_json(Json{{"a", "\xff"}}) == "{\"a\":\"\xef\xbf\xbd\"}");
  CHECK(dump_json(Json(std::numeric_limits<double>::infinity())) == "null");
}

TEST_CASE("JSON for terminals has no control characters") {
  const Json value = {{"k\x7f",
                       "\x1b\xc2\x9b"
                       "31m \xc3\xa4 \\\x7f"}};
  const std::string text = printable_json(value);
  CHECK(text == R"({"k\u007f":"\u001b\u009b31m )"
                "\xc3\xa4"
                R"( \\\u007f"})");
  CHECK(parse_json(text, "f") == value);
  CHECK(printable_json("\xc2") == "\"\xef\xbf\xbd\"");  // not UTF-8
}

}  // namespace adaptdl
