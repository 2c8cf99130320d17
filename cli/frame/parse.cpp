#include "cli/frame/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "cli/frame/invocation.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

// The words that are possible in place of a command; in a group, its verbs.
std::vector<std::string_view> command_names(const CommandGroup* group) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) {
    if (command.hidden || group_of(command) != group) continue;
    names.push_back(group == nullptr ? command.name : command.name.substr(group->name.size() + 1));
  }
  if (group == nullptr) {
    for (const CommandGroup& each : command_groups()) names.push_back(each.name);
  }
  return names;
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-';
}

std::string join(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

// `where` is "--flag" or the variable's name.
void check_value(const Option& option, const std::string& value, const std::string& where) {
  switch (option.kind) {
    case Kind::integer:
      try {
        parse_int(value, where, option.min, option.max);
      } catch (const Error& error) {
        throw UsageError(error.what());
      }
      break;
    case Kind::choice:
      if (std::none_of(option.choices.begin(), option.choices.end(), [&](std::string_view choice) {
            return value == choice || (choice.ends_with('=') && value.starts_with(choice));
          })) {
        throw UsageError(fmt::format("{}: invalid value {}; use {}.{}", where,
                                     value.empty() ? "''" : value, join(option.choices),
                                     did_you_mean(value, option.choices)));
      }
      break;
    case Kind::file:
    case Kind::directory:
    case Kind::job:
    case Kind::job_or_run:
      if (value.empty()) throw UsageError(where + ": the value is empty.");
      break;
    case Kind::flag:
    case Kind::text:
    case Kind::suggested:
    case Kind::words:
      break;
  }
}

bool flag_value(const std::string& text, const std::string& where) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  throw UsageError(fmt::format("{}: invalid value {}; use 1 (yes) or 0 (no).", where,
                               text.empty() ? "''" : text));
}

std::vector<std::string> split_blanks(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

const Arguments::Value* Arguments::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool Arguments::flag(std::string_view name) const {
  const Value* value = find(name);
  return value != nullptr && !value->texts.empty() && value->texts.back() == "true";
}

std::string Arguments::text(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr || value->texts.empty() ? "" : value->texts.back();
}

int64_t Arguments::integer(std::string_view name) const {
  return parse_int(text(name), name);
}

double Arguments::seconds(std::string_view name, double low, double high) const {
  try {
    return parse_duration(text(name), fmt::format("--{}", name), low, high);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

std::vector<std::string> Arguments::list(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? std::vector<std::string>() : value->texts;
}

bool Arguments::given(std::string_view name) const {
  const Value* value = find(name);
  return value != nullptr && value->given;
}

bool Arguments::on_line(std::string_view name) const {
  const Value* value = find(name);
  return value != nullptr && value->on_line;
}

std::optional<std::string> Arguments::positional(std::string_view name) const {
  const auto found = positionals_.find(name);
  if (found == positionals_.end()) return std::nullopt;
  return found->second;
}

// Parses one command line. CLI11 is the tokenizer: it tells flags and their values apart. Values
// are checked here, in the same way as those from the environment.
class Parser {
 public:
  Parser(const Command* command, const Environment& environment)
      : command_(command), environment_(environment) {
    app_.set_help_flag();
    app_.allow_extras();
    for (const Option& option : global_options()) add(option, "");
    if (command_ != nullptr) {
      for (const Option& option : command_->options) add(option, command_->name);
    }
  }

  Arguments parse(std::vector<std::string> words) {
    Arguments arguments;
    if (command_ != nullptr && command_->arguments_after_dashes) {
      const auto dashes = std::find(words.begin(), words.end(), "--");
      if (dashes != words.end()) {
        arguments.rest_.assign(dashes + 1, words.end());
        words.erase(dashes, words.end());
      }
    }
    if (command_ != nullptr && command_->program_follows) split_program(words, arguments);
    const std::vector<std::string> unflagged = split_flags(words);
    std::reverse(words.begin(), words.end());  // CLI11 expects this order
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      throw UsageError(std::string(error.what()) + ".");
    }
    for (const Entry& entry : entries_) take(entry, arguments);
    if (arguments.flag("help") || arguments.flag("version")) return arguments;
    std::vector<std::string> positionals = app_.remaining();
    for (const std::string& word : positionals) {
      if (is_flag(word)) unknown_flag(word);
    }
    positionals.insert(positionals.end(), unflagged.begin(), unflagged.end());
    take_positionals(positionals, arguments);
    return arguments;
  }

 private:
  struct Entry {
    Option option;
    std::string variable;
    CLI::Option* parsed;
  };

  void add(const Option& option, std::string_view command) {
    std::string names = fmt::format("--{}", option.name);
    if (option.letter != 0) names = fmt::format("-{},{}", option.letter, names);
    if (!option.other_name.empty()) names += fmt::format(",--{}", option.other_name);
    CLI::Option* parsed = option.kind == Kind::flag ? app_.add_flag(names) : app_.add_option(names);
    if (option.kind != Kind::flag) {
      parsed->expected(1)->type_size(1);
      parsed->multi_option_policy(option.repeat ? CLI::MultiOptionPolicy::TakeAll
                                                : CLI::MultiOptionPolicy::TakeLast);
    }
    entries_.push_back({option, variable_name(command, option), parsed});
  }

  const Option* find_flag(std::string_view name) const {
    for (const Entry& entry : entries_) {
      const Option& option = entry.option;
      if (name == option.name || (!name.empty() && name == option.other_name)) return &option;
    }
    return nullptr;
  }

  const Option* find_letter(char letter) const {
    for (const Entry& entry : entries_) {
      if (letter == entry.option.letter) return &entry.option;
    }
    return nullptr;
  }

  // The index of the word that follows the flag words[at] and its value. CLI11 takes "--flag=" for
  // a flag whose value follows, so an empty value becomes a word.
  size_t after_flag(std::vector<std::string>& words, size_t at) const {
    const std::string word = words[at];
    const Option* option = nullptr;
    bool attached = false;
    if (word.starts_with("--")) {
      const size_t equals = std::min(word.find('='), word.size());
      option = find_flag(std::string_view(word).substr(2, equals - 2));
      attached = equals + 1 < word.size();
      if (option != nullptr && equals + 1 == word.size()) {
        if (option->kind == Kind::flag) {
          throw UsageError(
              fmt::format("--{}: the value is empty; use 1 (yes) or 0 (no).", option->name));
        }
        words[at].pop_back();
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, "");
      }
    } else {
      for (size_t i = 1; i < word.size(); ++i) {  // -vojson is -v -o json
        option = find_letter(word[i]);
        attached = i + 1 < word.size();
        if (option == nullptr || option->kind != Kind::flag) break;
      }
    }
    if (option == nullptr || option->kind == Kind::flag || attached) return at + 1;
    if (at + 1 == words.size()) {
      throw UsageError(fmt::format("--{} needs a value: {}{}", option->name, option->value,
                                   option->value.ends_with('.') ? "" : "."));
    }
    return at + 2;
  }

  // Leaves in `words` what stands before "--", which ends the flags, and returns what stands after.
  std::vector<std::string> split_flags(std::vector<std::string>& words) const {
    std::vector<std::string> others;
    for (size_t next = 0; next < words.size();) {
      if (words[next] == "--") {
        const auto dashes = words.begin() + static_cast<std::ptrdiff_t>(next);
        others.assign(dashes + 1, words.end());
        words.erase(dashes, words.end());
      } else {
        next = is_flag(words[next]) ? after_flag(words, next) : next + 1;
      }
    }
    return others;
  }

  // Leaves the flags in `words`.
  void split_program(std::vector<std::string>& words, Arguments& arguments) const {
    size_t next = 0;
    while (next < words.size() && is_flag(words[next]) && words[next] != "--") {
      std::string& word = words[next];
      if (word.starts_with("--")) {
        const size_t equals = std::min(word.find('='), word.size());
        std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), '_', '-');
      }
      next = after_flag(words, next);
    }
    const auto program = words.begin() + static_cast<std::ptrdiff_t>(next);
    const bool dashes = program != words.end() && *program == "--";
    arguments.rest_.assign(program + (dashes ? 1 : 0), words.end());
    words.erase(program, words.end());
  }

  void take(const Entry& entry, Arguments& arguments) const {
    const Option& option = entry.option;
    Arguments::Value& value = arguments.values_[std::string(option.name)];
    std::string where = fmt::format("--{}", option.name);
    if (entry.parsed->count() > 0) {
      value.texts = entry.parsed->results();
      value.given = value.on_line = true;
    } else if (const char* text = option.variable ? environment_(entry.variable.c_str()) : nullptr;
               text != nullptr && *text != 0) {
      where = entry.variable;
      value.texts = option.repeat ? split_blanks(text) : std::vector<std::string>{text};
      value.given = true;
    } else if (!option.fallback.empty()) {
      value.texts = {std::string(option.fallback)};
    }
    for (std::string& text : value.texts) {
      if (option.kind == Kind::flag) {
        text = flag_value(text, where) ? "true" : "false";
      } else {
        check_value(option, text, where);
      }
    }
  }

  void take_positionals(const std::vector<std::string>& words, Arguments& arguments) const {
    size_t next = 0;
    for (const std::string& word : words) {
      if (next == command_->positionals.size()) {
        throw UsageError(fmt::format("{}: unexpected argument.{}", word, hint_at_dashes()));
      }
      const Positional& positional = command_->positionals[next];
      const Option as_option = {
          .name = positional.name, .kind = positional.kind, .choices = positional.choices};
      check_value(as_option, word, std::string(positional.name));
      if (positional.kind == Kind::words || positional.repeat) {
        arguments.rest_.push_back(word);
        continue;
      }
      arguments.positionals_[std::string(positional.name)] = word;
      ++next;
    }
    if (next == command_->positionals.size() || !command_->positionals[next].required) return;
    if (!command_->positionals[next].repeat || arguments.rest_.empty()) {
      throw UsageError(fmt::format("{} is missing: {}", command_->positionals[next].name,
                                   command_->positionals[next].doc));
    }
  }

  std::string hint_at_dashes() const {
    const bool takes_some = command_ != nullptr && command_->arguments_after_dashes;
    return takes_some ? " Give arguments of the program after --." : "";
  }

  [[noreturn]] void unknown_flag(const std::string& word) const {
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string_view> known;
    for (const Entry& entry : entries_) known.push_back(entry.option.name);
    std::string hint;
    if (name.starts_with("--") && command_ != nullptr && command_->instead_of != nullptr) {
      std::string flag = name.substr(2);
      std::replace(flag.begin(), flag.end(), '_', '-');
      const std::string_view instead = command_->instead_of(flag);
      if (!instead.empty()) throw UsageError(fmt::format("{}: {}.", name, instead));
    }
    if (name.starts_with("--")) hint = did_you_mean(std::string_view(name).substr(2), known, "--");
    if (hint.empty()) hint = hint_at_dashes();
    throw UsageError(fmt::format("unknown flag {}.{}", name, hint));
  }

  const Command* command_;
  const Environment& environment_;
  CLI::App app_;
  std::vector<Entry> entries_;
};

namespace {

// Separates the command's name from the other words. Global flags take no value, so the first word
// that is not a flag is the command, and the next one a group's verb.
struct Spoken {
  const Command* command = nullptr;
  const CommandGroup* group = nullptr;
  bool help = false;  // `adaptdl help [COMMAND]`, as many tools do
  std::string unknown;
  std::vector<std::string> others;
};

Spoken split(const std::vector<std::string>& words) {
  Spoken spoken;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (spoken.command != nullptr || is_flag(word)) {
      spoken.others.push_back(word);
    } else if (spoken.group != nullptr) {
      spoken.command = find_command(fmt::format("{} {}", spoken.group->name, word));
      if (spoken.command == nullptr) spoken.unknown = word;
    } else if (word == "help" && !spoken.help) {
      spoken.help = true;
    } else if ((spoken.command = find_command(word)) == nullptr) {
      spoken.group = find_group(word);
      if (spoken.group == nullptr) spoken.unknown = word;
    }
    if (!spoken.unknown.empty()) break;
    if (spoken.help && spoken.command != nullptr) break;  // the rest would be its arguments
  }
  return spoken;
}

}  // namespace

Parsed parse(const std::vector<std::string>& words, const Environment& environment) {
  Spoken spoken = split(words);
  if (!spoken.unknown.empty()) {
    const std::string noun = spoken.group != nullptr ? std::string(spoken.group->name) + " " : "";
    throw UsageError(fmt::format("unknown command {}{}.{}", noun, spoken.unknown,
                                 did_you_mean(spoken.unknown, command_names(spoken.group), noun)));
  }
  if (spoken.help) spoken.others.push_back("--help");
  Parsed parsed;
  parsed.command = spoken.command;
  parsed.group = spoken.group;
  Command none;
  parsed.arguments = Parser(spoken.command != nullptr ? spoken.command : &none, environment)
                         .parse(std::move(spoken.others));
  if (parsed.arguments.flag("version")) {
    parsed.what = Parsed::What::version;
  } else if (parsed.arguments.flag("help") || parsed.command == nullptr) {
    parsed.what = Parsed::What::help;
  } else {
    parsed.what = Parsed::What::command;
  }
  return parsed;
}

bool disables_color(const std::vector<std::string>& words, const Environment& environment) {
  const char* variable = environment("ADAPTDL_NO_COLOR");
  std::string text = variable != nullptr ? variable : "";
  constexpr std::string_view kFlag = "--no-color";
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == kFlag) text = "1";
    if (word.starts_with("--no-color=")) text = word.substr(kFlag.size() + 1);
  }
  try {
    return !text.empty() && flag_value(text, "");
  } catch (const UsageError&) {  // parse() tells
    return false;
  }
}

std::string help_hint(const std::vector<std::string>& words) {
  const Spoken spoken = split(words);
  const std::string_view name = spoken.command != nullptr ? spoken.command->name
                                : spoken.group != nullptr ? spoken.group->name
                                                          : std::string_view();
  return fmt::format("{} {}{}--help", program_name(), name, name.empty() ? "" : " ");
}

}  // namespace adaptdl::cli
