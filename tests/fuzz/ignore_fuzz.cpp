// Ignore rules: the last line is the path that they are asked about.

#include "core/base/error.h"
#include "core/formats/ignore_rules.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  const size_t last = text.rfind('\n') + 1;  // npos + 1 is 0
  const std::string_view path = text.substr(last);
  const IgnoreRules rules(text.substr(0, last));
  for (const bool folder : {false, true}) {
    const bool ignored = rules.ignored(path, folder);
    // A path's own verdict counts, and nothing below an ignored folder is taken back.
    if (rules.verdict(path, folder) == IgnoreRules::Verdict::ignored) ADAPTDL_CHECK(ignored);
    if (ignored && folder) ADAPTDL_CHECK(rules.ignored(std::string(path) + "/x", false));
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{"# comment\n*.pt\n!keep.pt\n/build/\n**/cache/**\na/**/b\\ \n[a-z]?[!x]\nsrc/a/b.pt",
           "/*\n!/src\n/src/*\n!/src/*.py\nsrc/a.py", "[[:alpha:]_]*[0-9]\nab/cd7"},
          {"**/", "/**",         "/**/", "*",  "**", "?",   "[",           "]",  "[!",
           "[^",  "[[:digit:]]", "[:",   ":]", "\\", "\\/", "/",           "//", "!",
           "#",   " ",           "\r\n", "\n", "-",  "a-z", "\xef\xbb\xbf"}};
}
