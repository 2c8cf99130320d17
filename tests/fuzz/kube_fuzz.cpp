#include "core/kube/status.h"
#include "core/kube/watch.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

std::string lines_of(std::string_view text, size_t piece) {
  kube::LineReader reader(64);
  std::string result;
  try {
    while (!text.empty()) {
      reader.add(text.substr(0, piece), [&](std::string_view line) {
        result += line;
        result += '\n';
      });
      text.remove_prefix(std::min(piece, text.size()));
    }
  } catch (const Error&) {
    return "too long";
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  const kube::ApiError error("fuzz", kube::parse_status(text, 500));
  ADAPTDL_CHECK(error.code() >= 100 && error.code() < 600);
  ADAPTDL_CHECK(!error.status().message.empty());
  try {
    const kube::WatchEvent event = kube::parse_watch_line(text);
    ADAPTDL_CHECK(event.object.is_object() && !event.resource_version.empty());
  } catch (const Error&) {
    // refused
  }
  // However it is cut, the lines are the same; only what is too long may be noticed earlier.
  const std::string whole = lines_of(text, std::max<size_t>(size, 1)), cut = lines_of(text, 3);
  ADAPTDL_CHECK(whole == cut || whole == "too long" || cut == "too long");
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {R"({"kind":"Status","status":"Failure","code":422,"reason":"Invalid","message":"m",
"details":{"name":"a","kind":"K","retryAfterSeconds":1,"causes":[{"reason":"r","message":"m",
"field":"spec.a"}]}})",
       R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}})",
       R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})", "a\nb\n\nc"},
      {"BOOKMARK", "DELETED", "MODIFIED", "\"code\":", "\"details\":", "\"causes\":", "null", "[]",
       "{}", "\n", "\"object\":", "-1", "1e9", "\"status\":\"Success\""}};
}
