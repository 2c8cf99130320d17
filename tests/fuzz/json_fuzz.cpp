#include "core/base/number.h"
#include "core/formats/json.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Json value = parse_json(text, "fuzz", {.max_bytes = 1 << 18, .max_depth = 20});
    ADAPTDL_CHECK(parse_json(dump_json(value), "again") == value);
    json_get_or<int>(value, "a", "fuzz", 1);
    json_get_or<std::vector<double>>(value, "b", "fuzz", {});
  } catch (const Error&) {
    // refused
  }
  try {
    parse_bytes(text.substr(0, 40), "fuzz");
  } catch (const Error&) {
    // refused
  }
  try {
    parse_duration(text.substr(0, 40), "fuzz");
  } catch (const Error&) {
    // refused
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {R"({"a": 1, "b": [1, 2.5e3, -0], "c": {"d": null, "e": "\u00e9\ud83d\ude00\\"}})",
       R"([[[[true, false]]], "x", 18446744073709551615, -9223372036854775808])", "1.5 GiB",
       "2m 30s", "1e308"},
      {"[", "]", "{", "}", "\"", "\\u", "\\ud800", "null", "1e999", "-", "KiB", " h", ",", ":"}};
}
