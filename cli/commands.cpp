#include "cli/commands.h"

#include <cctype>

namespace adaptdl::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      run_command(),      serve_command(),    init_command(),     inspect_command(),
      simulate_command(), profile_command(),  scale_command(),    ls_command(),
      logs_command(),     cancel_command(),   doctor_command(),   completion_command(),
      licenses_command(), dump_cli_command(), complete_command(), runner_command(),
  };
  return table;
}

const std::vector<Option>& global_options() {
  static const std::vector<Option> table = {
      {.name = "help", .letter = 'h', .doc = "Show help, also for one command.", .variable = false},
      {.name = "version", .doc = "Show the version and the commit.", .variable = false},
      {.name = "verbose", .letter = 'v', .doc = "Say more about what is done."},
      {.name = "quiet", .letter = 'q', .doc = "Say nothing but results and errors."},
      {.name = "no-color",
       .doc = "No colours and no display that moves. NO_COLOR and TERM=dumb do the same."},
  };
  return table;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

Option format_option(std::string_view doc) {
  return {.name = "format",
          .letter = 'o',
          .kind = Kind::choice,
          .value = "text|json",
          .fallback = "text",
          .doc = doc,
          .choices = {"text", "json"}};
}

Option set_option() {
  return {.name = "set",
          .kind = Kind::text,
          .value = "KEY=VALUE",
          .doc =
              "Override a setting of the archive, such as optimizer.lr=0.1 (`adaptdl inspect` "
              "lists them).",
          .repeat = true};
}

std::string variable_name(std::string_view command, std::string_view option) {
  std::string name = "ADAPTDL_";
  for (const char letter : command) name += static_cast<char>(std::toupper(letter));
  if (!command.empty()) name += '_';
  for (const char letter : option) name += static_cast<char>(std::toupper(letter));
  for (char& letter : name) {
    if (letter == '-') letter = '_';
  }
  return name;
}

}  // namespace adaptdl::cli
