// Templates of -o jsonpath=.

#include "core/base/error.h"
#include "core/formats/json_path.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Json value = {{"a", {1, "x", nullptr, {{"b", true}}}}, {"c", {{"d", 1.5}}}};
  if (size > 100) return 0;  // each range within another multiplies the output
  try {
    json_path_text(value, fuzz_text(data, size));
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"({range .a[*]}{.b}{"\n"}{end})", "{.a[?(@.b==true)]} {$.c['d']}", "{.a[-1].*}{@.c}"},
          {"{", "}", "[", "]",  "[*]", "[?(", ")]", "==",   "!=",  "{range ", "{end}",
           "$", "@", ".", ".*", "'",   "\"",  "\\", "null", "1e9", "-1"}};
}
