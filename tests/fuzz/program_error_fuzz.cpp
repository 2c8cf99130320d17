// The error file and the log of a program, which may write anything into them.

#include <algorithm>

#include "core/base/error.h"
#include "core/launch/command/pickle_refusal.h"
#include "core/launch/command/program_error.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = fuzz_text(data, size);
  ADAPTDL_CHECK(!refused_own_pickle(text) || text.find("/adaptdl/") != std::string_view::npos);
  const auto error = parse_program_error(text);
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
           R"({"message": "killed"})",
           "Traceback (most recent call last):\n"
           "[rank0]:   File \"/a/adaptdl/checkpoint.py\", line 9, in load_state\n"
           "[rank0]:   File \"/a/torch/serialization.py\", line 9, in load\n"
           "_pickle.UnpicklingError: Weights only load failed.\n"},
          {"\"message\": ", "\"extraInfo\": ", "\"timestamp\": 1e308", "\\n", "\\u001b", "null",
           "UnpicklingError: Weights only load failed", "  File \"", "\", line 1, in load", "{",
           "}", "\"", "-1"}};
}
