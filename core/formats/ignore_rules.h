#pragma once

// Which paths a file of ignore rules names, in the language of gitignore(5): a pattern a line, the
// last one that matches decides, "!" takes back, "/" anchors or asks for a folder, "**" spans
// folders, "\" takes the next character as it stands, "#" begins a comment. Used for
// .adaptdlignore. Immutable, safe to share between threads; matching needs no disk.

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

class IgnoreRules {
 public:
  // Never fails: as with git, a line that is no sound pattern matches nothing.
  explicit IgnoreRules(std::string_view text = "");

  // What the rules say of this path alone, or nothing. `path` is relative to the folder that the
  // rules are for, with single slashes between its names and none at its ends: "src/a.py". For one
  // who walks the tree from the top and does not enter folders that are left out.
  enum class Verdict { none, ignored, kept };
  Verdict verdict(std::string_view path, bool is_directory) const;

  // Whether the path is left out: by its own verdict, or because a folder above it is, in which
  // case nothing can take it back.
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
