// The hidden command whose output man pages and completions are generated from.

#include "cli/commands.h"
#include "cli/frame/help.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/version.h"

namespace adaptdl::cli {
namespace {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::flag:
      return "flag";
    case Kind::text:
      return "text";
    case Kind::integer:
      return "integer";
    case Kind::choice:
      return "choice";
    case Kind::suggested:
      return "suggested";
    case Kind::file:
      return "file";
    case Kind::directory:
      return "directory";
    case Kind::job:
      return "job";
    case Kind::job_or_run:
      return "job-or-run";
    case Kind::words:
      return "words";
  }
  return "";
}

Json json_of(const Option& option, std::string_view command) {
  const auto text_or_null = [](std::string_view text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  return {
      {"name", option.name},
      {"letter", option.letter == 0 ? Json(nullptr) : Json(std::string(1, option.letter))},
      {"kind", kind_name(option.kind)},
      {"value", text_or_null(option.value)},
      {"default", text_or_null(option.fallback)},
      {"choices", option.choices},
      {"repeat", option.repeat},
      {"doc", option.doc},
      {"env", option.variable ? Json(variable_name(command, option)) : Json(nullptr)},
  };
}

Json json_of(const Command& command) {
  Json result = {{"name", command.name},         {"summary", command.summary},
                 {"text", command.text},         {"usage", usage_line(command)},
                 {"hidden", command.hidden},     {"options", Json::array()},
                 {"positionals", Json::array()}, {"examples", Json::array()}};
  for (const Option& option : command.options) {
    result["options"].push_back(json_of(option, command.name));
  }
  for (const Positional& positional : command.positionals) {
    result["positionals"].push_back({{"name", positional.name},
                                     {"kind", kind_name(positional.kind)},
                                     {"doc", positional.doc},
                                     {"required", positional.required},
                                     {"repeat", positional.repeat},
                                     {"choices", positional.choices}});
  }
  for (const Example& example : command.examples) {
    result["examples"].push_back({{"command", example.command}, {"doc", example.doc}});
  }
  return result;
}

int run_dump_cli(const Arguments&) {
  Json dump = {{"version", version()},
               {"global", Json::array()},
               {"groups", Json::array()},
               {"commands", Json::array()}};
  for (const Option& option : global_options()) dump["global"].push_back(json_of(option, ""));
  for (const CommandGroup& group : command_groups()) {
    dump["groups"].push_back(
        {{"name", group.name}, {"summary", group.summary}, {"text", group.text}});
  }
  for (const Command& command : commands()) dump["commands"].push_back(json_of(command));
  print_line(dump.dump(1));
  return 0;
}

}  // namespace

Command dump_cli_command() {
  return {.name = "__dump-cli",
          .summary = "Print the command table as JSON",
          .hidden = true,
          .run = run_dump_cli};
}

}  // namespace adaptdl::cli
