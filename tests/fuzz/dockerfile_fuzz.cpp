// Dockerfiles: each instruction's words, with variables put in; and rules of .dockerignore.

#include "core/base/error.h"
#include "core/oci/context.h"
#include "core/oci/dockerfile.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::oci;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  const DockerIgnore rules(text);
  ADAPTDL_CHECK(!rules.ignored("a/b") || rules.ignored("a/b/c") || !rules.final_for_folders());
  for (const char escape : {'\\', '`'}) {
    const std::vector<std::string> words = split_words(escaped(text, escape), escape, "it");
    ADAPTDL_CHECK(text.empty() || text.find('\n') != text.npos ||
                  (words.size() == 1 && words[0] == text));
    const std::string quoted = '"' + escaped(text, escape, '"') + '"';
    ADAPTDL_CHECK(unquoted(quoted, escape, "it") == text);
    ADAPTDL_CHECK(split_words(quoted, escape, "it") == std::vector{std::string(text)});
  }
  try {
    const Dockerfile file = parse_dockerfile(text, "D");
    for (const Instruction& one : file.instructions) {
      ADAPTDL_CHECK(one.line > 0 && !one.text.empty());
      const auto lookup = [&](const std::string& name, char quote) -> std::optional<std::string> {
        if (name.size() % 2 == 0) return std::nullopt;
        return escaped(name, file.escape, quote);
      };
      const std::string expanded = expand(one.text, file.escape, lookup, "D");
      split_words(expanded, file.escape, "D");
      unquoted(expanded, file.escape, "D");
      std::vector<std::string> words;
      json_words(one.text, words);
    }
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{"# escape=`\nARG A=1\nFROM a:${A:-2} AS b\nCOPY --chown=1:2 [\"a\", \"b\"]\nENV A=\"b "
           "c\" `\n D='e'",
           "FROM scratch\nADD a \\\n# c\n b /\nCMD [\"x\"]\nLABEL a=b", "**/*.py\n!a/b\n/c/"},
          {"FROM ", "COPY ", "--from=", "${", ":-", ":+", "}", "\\\n", "`\n", "\"", "'", "[", "]",
           "# escape=`\n", "!", "**", "\xef\xbb\xbf"}};
}
