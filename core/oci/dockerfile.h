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
  std::string text;  // behind the name and the flags, continued lines joined
  std::vector<std::pair<std::string, std::string>> flags;  // of --NAME=VALUE at its front
  bool here_document = false;  // <<WORD in it; the lines up to WORD are left out
};

struct Dockerfile {
  std::string path;  // for messages
  char escape = '\\';
  std::vector<Instruction> instructions;
};

// Throws Error "PATH:LINE: ..." for what is no instruction of docker's.
Dockerfile parse_dockerfile(std::string_view text, const std::string& path);

// A variable's value; nothing if it is unset. `quote` is what it stands in: '"', or 0 for none.
using VariableLookup =
    std::function<std::optional<std::string>(const std::string& name, char quote)>;

// The value such that split_words() gives it back, within one word, in such quotes.
std::string escaped(std::string_view value, char escape, char quote = '\0');

// Puts in values for $NAME, ${NAME}, ${NAME:-otherwise} and ${NAME:+instead}; quotes stay. Within
// single quotes, and behind the escape character, nothing is put in. Throws Error "WHERE: ..." for
// other things in braces.
std::string expand(std::string_view text, char escape, const VariableLookup& lookup,
                   const std::string& where);

// The text's words, without quotes and escapes; within double quotes the escape character is one
// only before itself, a double quote or a dollar sign. Throws Error "WHERE: ..." for a quote that
// does not end.
std::vector<std::string> split_words(std::string_view text, char escape, const std::string& where);

// The same for a text that is one word, with the blanks in it.
std::string unquoted(std::string_view text, char escape, const std::string& where);

// The list if the text is one in JSON's form, ["a", "b"], which docker takes as it stands.
bool json_words(std::string_view text, std::vector<std::string>& words);

// Throws Error for the instruction's place in the file: "PATH:LINE: SENTENCE".
[[noreturn]] void fail_at(const Dockerfile& file, const Instruction& instruction,
                          const std::string& sentence);

}  // namespace adaptdl::oci
