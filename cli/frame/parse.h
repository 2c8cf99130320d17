#pragma once

// Converts argv and the environment to the values of one command, as its record in the table says.
// Precedence: flag, then environment variable, then the record's default.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace adaptdl::cli {

// Looks up an environment variable; nullptr when unset. Tests pass their own.
using Environment = std::function<const char*(const char* name)>;

class Arguments {
 public:
  bool flag(std::string_view name) const;         // false unless given
  std::string text(std::string_view name) const;  // "" without a value or default
  int64_t integer(std::string_view name) const;   // Requires: a value or a default
  // A duration (core/base/number.h) of [low, high] seconds; UsageError for anything else.
  double seconds(std::string_view name, double low = 0.0,
                 double high = std::numeric_limits<double>::infinity()) const;
  std::vector<std::string> list(std::string_view name) const;
  // Set by flag or environment, not by default.
  bool given(std::string_view name) const;
  bool on_line(std::string_view name) const;  // set by flag
  std::optional<std::string> positional(std::string_view name) const;
  const std::vector<std::string>& rest() const {
    return rest_;
  }  // after --, `words`, or repeated positionals
  bool json() const { return text("format") == "json"; }

  bool quiet() const { return flag("quiet"); }
  bool verbose() const { return flag("verbose"); }

 private:
  friend class Parser;
  struct Value {
    std::vector<std::string> texts;
    bool given = false;
    bool on_line = false;
  };
  const Value* find(std::string_view name) const;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> positionals_;
  std::vector<std::string> rest_;
};

struct Parsed {
  enum class What { help, version, command };
  What what = What::help;
  const Command* command = nullptr;     // null: help of `group`, or of the program itself
  const CommandGroup* group = nullptr;  // the named one, with or without a command
  Arguments arguments;                  // for What::help only the global flags are guaranteed
};

// Throws UsageError for unknown commands and flags (with a suggestion), bad values, too many or
// missing arguments. `words` are argv[1..].
Parsed parse(const std::vector<std::string>& words, const Environment& environment);

// Whether --no-color or its variable disables colours, of words that need not be valid otherwise.
bool disables_color(const std::vector<std::string>& words, const Environment& environment);

// "adaptdl run --help": the help for a mistake in these words.
std::string help_hint(const std::vector<std::string>& words);

}  // namespace adaptdl::cli
