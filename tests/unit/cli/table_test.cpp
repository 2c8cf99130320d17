#include <algorithm>
#include <doctest/doctest.h>
#include <set>

#include "cli/commands.h"
#include "cli/frame/help.h"
#include "cli/frame/output.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

// What programs of Python AdaptDL read, and variables of ours that are no flags. A flag's variable
// of such a name would reach, or be set by, the replicas.
const std::set<std::string> kReserved = {
    "ADAPTDL_NUM_REPLICAS",    "ADAPTDL_REPLICA_RANK", "ADAPTDL_NUM_NODES",
    "ADAPTDL_NUM_RESTARTS",    "ADAPTDL_MASTER_PORT",  "ADAPTDL_MASTER_ADDR",
    "ADAPTDL_SUPERVISOR_URL",  "ADAPTDL_JOB_ID",       "ADAPTDL_SCHED_VERSION",
    "ADAPTDL_CHECKPOINT_PATH", "ADAPTDL_SHARE_PATH",   "ADAPTDL_TENSORBOARD_LOGDIR",
    "ADAPTDL_CONTROL_FD",      "ADAPTDL_LIBTORCH",     "ADAPTDL_WORKER"};

struct Row {
  const Command* command;
  const Option* option;
};

std::vector<Row> all_options() {
  std::vector<Row> rows;
  for (const Option& option : global_options()) rows.push_back({nullptr, &option});
  for (const Command& command : commands()) {
    for (const Option& option : command.options) rows.push_back({&command, &option});
  }
  return rows;
}

TEST_CASE("variables are unlike each other and unlike those of the workers") {
  std::set<std::string> seen;
  for (const auto& [command, option] : all_options()) {
    if (!option->shared_variable.empty()) continue;
    const std::string variable = variable_name(command ? command->name : "", *option);
    INFO(variable);
    CHECK(kReserved.count(variable) == 0);
    CHECK(seen.insert(variable).second);
  }
}

TEST_CASE("names of variables") {
  CHECK(variable_name("run", {.name = "replicas-at"}) == "ADAPTDL_RUN_REPLICAS_AT");
  CHECK(variable_name("", {.name = "no-color"}) == "ADAPTDL_NO_COLOR");
  CHECK(variable_name("tensorboard proxy", {.name = "port"}) == "ADAPTDL_TENSORBOARD_PROXY_PORT");
  CHECK(variable_name("submit", with_cluster({}).front()) == "ADAPTDL_CLUSTER");
}

// What others name or count is described by the value that one of these takes: a cluster's nodes,
// the folder of TensorBoard files, which slots.
const std::set<std::pair<std::string_view, std::string_view>> kOfTheirOwn = {
    {"simulate", "cluster"}, {"run", "tensorboard"}, {"__runner", "slots"}};

TEST_CASE("a flag means the same on every command") {
  for (const Row& row : all_options()) {
    const Command* command = row.command;
    const Option* option = row.option;
    for (const auto& [other_command, other] : all_options()) {
      if (option->name == other->name) {
        INFO(option->name);
        // A letter may be another flag's on some command (-f and -d of submit, as in
        // AdaptDL's own, where -f of `image build` is docker's).
        const bool submits = command != nullptr && command->name == "submit";
        const bool other_submits = other_command != nullptr && other_command->name == "submit";
        if (option->name != "dockerfile" || submits == other_submits) {
          CHECK((option->letter == other->letter || option->letter == 0 || other->letter == 0));
        }
        if (command != nullptr && (kOfTheirOwn.count({command->name, option->name}) > 0 ||
                                   kOfTheirOwn.count({other_command->name, other->name}) > 0)) {
          continue;
        }
        CHECK(option->kind == other->kind);
        if (option != other) {
          CHECK(command != other_command);
          CHECK(command != nullptr);  // no command redefines a global flag
        }
      } else if (option->letter != 0 && (command == other_command || command == nullptr)) {
        INFO(option->name);
        CHECK(option->letter != other->letter);
      }
    }
  }
}

TEST_CASE("records are complete") {
  for (const Command& command : commands()) {
    INFO(command.name);
    CHECK((command.run != nullptr));
    CHECK_FALSE(command.summary.empty());
    CHECK_FALSE(command.summary.ends_with('.'));
    if (!command.hidden) CHECK_FALSE(command.text.empty());
    for (const Positional& positional : command.positionals) CHECK_FALSE(positional.doc.empty());
  }
  for (const Command& command : commands()) {
    CHECK((command.name.find(' ') != std::string_view::npos) == (group_of(command) != nullptr));
  }
  for (const CommandGroup& group : command_groups()) {
    CHECK_FALSE(group.text.empty());
    CHECK(find_command(group.name) == nullptr);
  }
  for (const Row& row : all_options()) {
    const Option* option = row.option;
    INFO(option->name);
    CHECK_FALSE(option->doc.empty());
    CHECK((option->kind == Kind::flag) == option->value.empty());
    const bool chooses = option->kind == Kind::choice || option->kind == Kind::suggested;
    CHECK(chooses == !option->choices.empty());
    if (option->kind == Kind::choice && !option->fallback.empty()) {
      CHECK(std::find(option->choices.begin(), option->choices.end(), option->fallback) !=
            option->choices.end());
    }
  }
}

// The help and the man pages make what stands between two backticks of a line bold.
TEST_CASE("no code of the manual crosses a line") {
  const auto check = [](std::string_view name, std::string_view text) {
    for (const std::string& line : split(text, '\n')) {
      INFO(name);
      INFO(line);
      CHECK(std::count(line.begin(), line.end(), '`') % 2 == 0);
    }
  };
  for (const Command& command : commands()) check(command.name, command.text);
  for (const CommandGroup& group : command_groups()) check(group.name, group.text);
}

TEST_CASE("a table counts characters, not bytes") {
  CHECK(table({"NAME", "KIND"}, {{"\xc3\xa9t\xc3\xa9-of-1", "run"}, {"b", "job"}}) ==
        "NAME      KIND\n\xc3\xa9t\xc3\xa9-of-1  run\nb         job\n");
}

TEST_CASE("a long last column goes on below, within the terminal") {
  const std::string meaning = "Samples of a step, of all replicas together, at the start.";
  const std::vector<std::string> head = {"SETTING", "MEANING"};
  const std::vector<std::vector<std::string>> rows = {{"batch.initial", meaning}, {"x", "Short."}};
  CHECK(wrapped_table(head, rows, 50) ==
        "SETTING        MEANING\n"
        "batch.initial  Samples of a step, of all replicas\n"
        "               together, at the start.\n"
        "x              Short.\n");
  CHECK(wrapped_table(head, rows, 0) == table(head, rows));
  CHECK(wrapped_table(head, rows, 40) == table(head, rows));  // no room
  std::string words = "word";
  for (int i = 0; i < 300; ++i) words += " word";
  for (const std::string& line : split(wrapped_table(head, {{"many", words}}, 80), '\n')) {
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("later tables have columns as wide as the first") {
  std::vector<size_t> widths;
  CHECK(table({"A", "B"}, {{"long-name", "1"}}, &widths) == "A          B\nlong-name  1\n");
  CHECK(table({"A", "B"}, {{"x", "2"}}, &widths) == "A          B\nx          2\n");
}

TEST_CASE("help fits into 88 columns") {
  const auto check = [](const std::string& text) {
    size_t start = 0;
    while (start < text.size()) {
      const size_t end = std::min(text.find('\n', start), text.size());
      INFO(text.substr(start, end - start));
      CHECK(end - start <= 88);
      start = end + 1;
    }
  };
  check(program_help(false));
  for (const Command& command : commands()) check(command_help(command, false));
  for (const CommandGroup& group : command_groups()) check(group_help(group, false));
}

}  // namespace
}  // namespace adaptdl::cli
