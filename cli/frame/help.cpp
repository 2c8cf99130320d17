#include "cli/frame/help.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "cli/frame/invocation.h"
#include "cli/frame/output.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kIndent = 26;  // column of the explanations

std::string heading(std::string_view text, bool fancy) {
  return fancy ? fmt::format("\n\x1b[1m{}\x1b[0m\n", text) : fmt::format("\n{}\n", text);
}

std::string entry(const std::string& left, const std::string& right) {
  std::string line = "  " + left;
  if (line.size() + 2 > kIndent) {
    line += '\n';
    line.append(kIndent, ' ');
  } else {
    line.append(kIndent - line.size(), ' ');
  }
  return line + wrap(right, kWidth, kIndent) + "\n";
}

std::string options_help(const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) {
    std::string left = option.letter != 0 ? fmt::format("-{}, ", option.letter) : "    ";
    left += fmt::format("--{}", option.name);
    if (!option.value.empty()) left += fmt::format(" {}", option.value);
    std::string right(option.doc);
    if (option.repeat) right += " May be repeated.";
    if (!option.fallback.empty()) right += fmt::format(" Default: {}.", option.fallback);
    text += entry(left, right);
  }
  return text;
}

// The manual text is in a subset of Markdown: paragraphs, "## " headings, indented code, `code`.
std::string manual_text(std::string_view markdown, bool fancy) {
  std::string text;
  while (!markdown.empty()) {
    const size_t end = std::min(markdown.find('\n'), markdown.size());
    std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    if (line.starts_with("## ")) {
      line.remove_prefix(3);
      text += fancy ? fmt::format("\x1b[1m{}\x1b[0m\n", line) : fmt::format("{}\n", line);
      continue;
    }
    bool code = false;
    for (const char letter : line) {
      if (letter != '`') {
        text += letter;
      } else if (fancy) {
        code = !code;
        text += code ? "\x1b[1m" : "\x1b[0m";
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string usage_line(const Command& command) {
  std::string line = fmt::format("{} {}", program_name(), command.name);
  if (!command.options.empty()) line += " [FLAGS]";
  for (const Positional& positional : command.positionals) {
    line += positional.required ? fmt::format(" {}", positional.name)
                                : fmt::format(" [{}]", positional.name);
    if (positional.repeat) line += "...";
  }
  if (command.arguments_after_dashes) line += " [-- ARGS...]";
  return line;
}

std::string program_help(bool fancy) {
  std::string text =
      "adaptdl trains models data-parallel while replicas come and go, and adapts\n"
      "batch size and learning rate to them.\n";
  text +=
      heading("Usage", fancy) + fmt::format("  {} COMMAND [FLAGS] [ARGUMENTS]\n", program_name());
  text += heading("Commands", fancy);
  const CommandGroup* group = nullptr;
  for (const Command& command : commands()) {
    if (command.hidden) continue;
    const CommandGroup* before = std::exchange(group, group_of(command));
    if (group == nullptr) {
      text += fmt::format("  {:<13}{}\n", command.name, command.summary);
    } else if (group != before) {
      text += fmt::format("  {:<13}{}\n", group->name, group->summary);
    }
  }
  text += heading("Flags of every command", fancy) + options_help(global_options());
  text += heading("Start here", fancy) +
          "  adaptdl init digits digits      write a working example\n"
          "  adaptdl run digits/train.pt     train it\n";
  text += fmt::format("\n{} COMMAND --help describes a command.\n", program_name());
  return text;
}

std::string group_help(const CommandGroup& group, bool fancy) {
  std::string text = fmt::format("{}\n", group.summary);
  text += heading("Usage", fancy);
  for (const Command& command : commands()) {
    if (group_of(command) == &group) text += "  " + usage_line(command) + "\n";
  }
  text += heading("Commands", fancy);
  for (const Command& command : commands()) {
    if (group_of(command) != &group) continue;
    text += entry(std::string(command.name.substr(group.name.size() + 1)),
                  std::string(command.summary) + ".");
  }
  if (!group.text.empty()) text += "\n" + manual_text(group.text, fancy);
  return text +
         fmt::format("\n{} {} COMMAND --help describes a command.\n", program_name(), group.name);
}

std::string command_help(const Command& command, bool fancy) {
  std::string text = fmt::format("{}\n", command.summary);
  text += heading("Usage", fancy) + "  " + usage_line(command) + "\n";
  if (!command.positionals.empty()) {
    text += heading("Arguments", fancy);
    for (const Positional& positional : command.positionals) {
      text += entry(std::string(positional.name), std::string(positional.doc));
    }
  }
  if (!command.options.empty()) {
    text += heading("Flags", fancy) + options_help(command.options);
  }
  text += heading("Flags of every command", fancy) + options_help(global_options());
  if (!command.text.empty()) text += "\n" + manual_text(command.text, fancy);
  if (!command.examples.empty()) {
    text += heading("Examples", fancy);
    for (const Example& example : command.examples) {
      const bool ours = example.command.starts_with("adaptdl ");
      const std::string_view first = ours && is_kubectl_plugin() ? "kubectl " : "";
      text += fmt::format("  {}{}\n      {}\n", first, example.command, example.doc);
    }
  }
  if (!command.options.empty()) {
    const Option& first = command.options.front();
    text += "\n" +
            wrap(fmt::format("Each flag can also be set by an environment variable, {} for --{}.",
                             variable_name(command.name, first), first.name),
                 88, 0) +
            "\n";
  }
  return text;
}

}  // namespace adaptdl::cli
