#pragma once

// Matches paths against a file of ignore rules in the syntax of gitignore(5): one pattern a line;
// the last matching one decides; "!" re-includes; "/" anchors a pattern, or at its end matches only
// folders; "**" spans folders; "\" quotes the next character; "#" begins a comment. Used for
// .adaptdlignore. Immutable, safe to share between threads; matching does not access the disk.

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

class IgnoreRules {
 public:
  // Never fails: as in git, an invalid pattern matches nothing.
  explicit IgnoreRules(std::string_view text = "");

  // What the rules say about this path alone. `path` is relative to the folder of the rules, with
  // single slashes between its names and none at its ends: "src/a.py". For callers that walk the
  // tree from the top and do not enter ignored folders.
  enum class Verdict { none, ignored, kept };
  Verdict verdict(std::string_view path, bool is_directory) const;

  // Whether the path is ignored: by its own verdict, or because a folder above it is ignored; then
  // no rule can re-include it.
  bool ignored(std::string_view path, bool is_directory) const;

 private:
  // Matches one character, or as many as it likes.
  struct Token {
    enum class Kind {
      literal,
      any,         // ? : one character
      set,         // [...]
      star,        // * : any number of characters but slashes
      everything,  // ** : any number of characters
      folders,     // **/ : nothing, or everything up to some slash
    };
    Kind kind = Kind::literal;
    char character = 0;  // of a literal
    size_t set = 0;      // index into sets_
  };
  struct Rule {
    bool negated = false, folders_only = false;
    bool anchored = false;  // to the whole path; else to the last name
    std::string prefix;     // of the path or name, before the first token
    std::vector<Token> tokens;
  };

  void add_line(std::string_view line);
  bool compile(std::string_view pattern, Rule& rule);
  bool compile_set(std::string_view pattern, size_t& at);
  bool matches(const Rule& rule, std::string_view text) const;

  std::vector<Rule> rules_;
  std::vector<std::bitset<256>> sets_;
};

}  // namespace adaptdl
