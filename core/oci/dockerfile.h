#pragma once

// Dockerfiles, as text: instructions with their lines, words and variables. Pure functions,
// thread-safe.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptdl::oci {

struct Instruction {
  int line = 0;      // of the file, where it begins
  std::string name;  // in capitals: "COPY"
  std::string text;  // after the name and the flags, continued lines joined
  std::vector<std::pair<std::string, std::string>> flags;  // from --NAME=VALUE at its beginning
  bool here_document = false;  // it has <<WORD; the lines up to WORD are dropped
};

struct Dockerfile {
  std::string path;  // for messages
  char escape = '\\';
  std::vector<Instruction> instructions;
};

// Throws Error "PATH:LINE: ..." for an unknown instruction.
Dockerfile parse_dockerfile(std::string_view text, const std::string& path);

// A variable's value; nothing if it is unset. `quote` is the enclosing quote: '"', or 0 for none.
using VariableLookup =
    std::function<std::optional<std::string>(const std::string& name, char quote)>;

// Escapes the value such that split_words() returns it within one word, in such quotes.
std::string escaped(std::string_view value, char escape, char quote = '\0');

// Replaces $NAME, ${NAME}, ${NAME:-otherwise} and ${NAME:+instead} by their values; quotes stay.
// Replaces nothing within single quotes and after the escape character. Throws Error "WHERE: ..."
// for other expressions in braces.
std::string expand(std::string_view text, char escape, const VariableLookup& lookup,
                   const std::string& where);

// The text's words, without quotes and escapes; within double quotes the escape character escapes
// only itself, a double quote or a dollar sign. Throws Error "WHERE: ..." for an unclosed quote.
std::vector<std::string> split_words(std::string_view text, char escape, const std::string& where);

// The same for a text that is one word, including its blanks.
std::string unquoted(std::string_view text, char escape, const std::string& where);

// If the text is a JSON list, ["a", "b"], stores its items in `words`. docker uses such words
// literally.
bool json_words(std::string_view text, std::vector<std::string>& words);

// Throws Error for the instruction's place in the file: "PATH:LINE: SENTENCE".
[[noreturn]] void fail_at(const Dockerfile& file, const Instruction& instruction,
                          const std::string& sentence);

}  // namespace adaptdl::oci
