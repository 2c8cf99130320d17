// The error file of a program, which may write anything into it.

#include <algorithm>

#include "core/base/error.h"
#include "core/launch/command/program_error.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto error = parse_program_error(fuzz_text(data, size));
  if (!error) return 0;
  const auto plain = [](const std::string& line) {
    return line.size() < 1000 && std::none_of(line.begin(), line.end(), [](char c) {
             return static_cast<unsigned char>(c) < 0x20;
           });
  };
  ADAPTDL_CHECK(plain(error->message));
  ADAPTDL_CHECK(error->traceback.size() <= 20);
  ADAPTDL_CHECK(std::all_of(error->traceback.begin(), error->traceback.end(), plain));
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"({"message": {"message": "ValueError: odd", "extraInfo": {"py_callstack":
             "Traceback:\n  line 7\nValueError: odd", "timestamp": "1767225600"}}})",
           R"({"message": "killed"})"},
          {"\"message\": ", "\"extraInfo\": ", "\"timestamp\": 1e308", "\\n", "\\u001b", "null",
           "{", "}", "\"", "-1"}};
}
