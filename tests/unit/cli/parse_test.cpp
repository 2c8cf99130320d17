#include "cli/frame/parse.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>

#include "cli/commands/run_hosts.h"
#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

using Words = std::vector<std::string>;

Parsed parse_with(const Words& words, const std::map<std::string, std::string>& variables = {}) {
  return parse(words, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string usage_error(const Words& words,
                        const std::map<std::string, std::string>& variables = {}) {
  try {
    parse_with(words, variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("without a command there is help") {
  CHECK(parse_with({}).what == Parsed::What::help);
  CHECK(parse_with({}).command == nullptr);
  CHECK(parse_with({"-v"}).what == Parsed::What::help);
  CHECK(parse_with({"help"}).command == nullptr);
  CHECK(parse_with({"help", "run"}).command->name == "run");
  CHECK(parse_with({"run", "--help"}).command->name == "run");
  CHECK(parse_with({"run", "-h"}).what == Parsed::What::help);
}

TEST_CASE("groups: a noun and a verb") {
  const Parsed parsed =
      parse_with({"-q", "tensorboard", "-v", "proxy", "curves", "--port", "8080"});
  CHECK(parsed.command->name == "tensorboard proxy");
  CHECK(parsed.what == Parsed::What::command);
  CHECK(parsed.arguments.positional("NAME") == "curves");
  CHECK(parsed.arguments.integer("port") == 8080);
  CHECK(parsed.arguments.quiet());
  CHECK(parsed.arguments.verbose());
  for (const Words& words : {Words{"policy"}, {"policy", "--help"}, {"help", "policy"}}) {
    const Parsed help = parse_with(words);
    CHECK(help.what == Parsed::What::help);
    CHECK(help.command == nullptr);
    CHECK(help.group->name == "policy");
  }
  CHECK(parse_with({"help", "policy", "set"}).command->name == "policy set");
  CHECK(parse_with({"help", "policy", "set"}).what == Parsed::What::help);
  CHECK(contains(usage_error({"tensorboard", "creat", "x"}), "Did you mean tensorboard create?"));
  CHECK(contains(usage_error({"tensorbord"}), "Did you mean tensorboard?"));
  CHECK(help_hint({"tensorboard", "creat"}) == "adaptdl tensorboard --help");
  CHECK(help_hint({"policy", "set"}) == "adaptdl policy set --help");
  CHECK(help_hint({"nothing"}) == "adaptdl --help");
}

TEST_CASE("a variable that commands share") {
  const std::map<std::string, std::string> variables = {{"ADAPTDL_CLUSTER", "there"}};
  CHECK(parse_with({"ls"}, variables).arguments.text("cluster") == "there");
  CHECK(parse_with({"wait", "x"}, variables).arguments.text("cluster") == "there");
  CHECK_FALSE(parse_with({"ls"}, {{"ADAPTDL_LS_CLUSTER", "x"}}).arguments.given("cluster"));
}

TEST_CASE("version wins wherever it stands") {
  CHECK(parse_with({"--version"}).what == Parsed::What::version);
  CHECK(parse_with({"run", "--version"}).what == Parsed::What::version);
}

TEST_CASE("a flag wins over its variable, and that over the default") {
  const std::map<std::string, std::string> variables = {{"ADAPTDL_RUN_MAX_RESTARTS", "7"}};
  CHECK(parse_with({"run", "x.pt"}).arguments.integer("max-restarts") == 3);
  CHECK_FALSE(parse_with({"run", "x.pt"}).arguments.given("max-restarts"));
  CHECK(parse_with({"run", "x.pt"}, variables).arguments.integer("max-restarts") == 7);
  CHECK(parse_with({"run", "x.pt"}, variables).arguments.given("max-restarts"));
  const Parsed both = parse_with({"run", "x.pt", "--max-restarts", "9"}, variables);
  CHECK(both.arguments.integer("max-restarts") == 9);
}

TEST_CASE("an empty variable counts as unset") {
  const Parsed parsed = parse_with({"run", "x.pt"}, {{"ADAPTDL_RUN_REPLICAS", ""}});
  CHECK(parsed.arguments.text("replicas") == "1");
}

TEST_CASE("flags may be switched by variable and by =false") {
  CHECK(parse_with({"run", "x.pt"}, {{"ADAPTDL_RUN_FRESH", "1"}}).arguments.flag("fresh"));
  CHECK_FALSE(parse_with({"run", "x.pt"}, {{"ADAPTDL_RUN_FRESH", "no"}}).arguments.flag("fresh"));
  CHECK_FALSE(parse_with({"run", "x.pt", "--fresh=false"}, {{"ADAPTDL_RUN_FRESH", "1"}})
                  .arguments.flag("fresh"));
  CHECK(contains(usage_error({"run", "x.pt"}, {{"ADAPTDL_RUN_FRESH", "maybe"}}),
                 "ADAPTDL_RUN_FRESH"));
}

TEST_CASE("global flags stand before or after the command") {
  CHECK(parse_with({"-q", "run", "x.pt"}).arguments.quiet());
  CHECK(parse_with({"run", "x.pt", "-q"}).arguments.quiet());
  CHECK(parse_with({"run", "x.pt"}, {{"ADAPTDL_QUIET", "1"}}).arguments.quiet());
}

TEST_CASE("values: as a word, after =, and beside a letter") {
  for (const Words& words : {Words{"run", "x.pt", "--format", "json"},
                             {"run", "x.pt", "--format=json"},
                             {"run", "-ojson", "x.pt"},
                             {"run", "-o", "json", "x.pt"}}) {
    const Parsed parsed = parse_with(words);
    CHECK(parsed.arguments.json());
    CHECK(parsed.arguments.positional("PROGRAM") == "x.pt");
  }
}

TEST_CASE("an empty value after = is the value") {
  CHECK(parse_with({"run", "--name=", "x.pt"}).arguments.positional("PROGRAM") == "x.pt");
  CHECK(parse_with({"run", "x.pt", "--name="}).arguments.text("name").empty());
  CHECK(parse_with({"run", "x.pt", "--name="}).arguments.given("name"));
  CHECK(parse_with({"submit", "--name=", "-n", "b"}).arguments.text("name") == "b");
  CHECK(usage_error({"submit", "--jobfile=", "x"}) == "--file: the value is empty.");
  CHECK(contains(usage_error({"logs", "--tail=", "5"}), "--tail"));
  CHECK(contains(usage_error({"ls", "--format="}), "--format: invalid value ''"));
  CHECK(usage_error({"ls", "--all="}) == "--all: the value is empty; use 1 (yes) or 0 (no).");
  CHECK(usage_error({"wait", ""}) == "JOB: the value is empty.");
  CHECK(usage_error({"wait", "a", "--", ""}) == "JOB: the value is empty.");
}

TEST_CASE("a flag without its value says what it takes") {
  CHECK(usage_error({"ls", "-q", "--format"}).starts_with("--format needs a value: "));
  CHECK(usage_error({"wait", "a", "--timeout"}) == "--timeout needs a value: DURATION.");
  CHECK(usage_error({"ls", "-qo"}).starts_with("--format needs a value"));
  CHECK(contains(usage_error({"run", "--name", "--", "x"}), "--name needs a value: "));
  CHECK(contains(usage_error({"torchrun", "--log_dir"}), "--log-dir needs a value: "));
}

TEST_CASE("-- ends the flags, whoever gets what follows") {
  CHECK(parse_with({"inspect", "--", "-w.pt"}).arguments.positional("PATH") == "-w.pt");
  CHECK(parse_with({"wait", "a", "--", "-b", "--"}).arguments.rest() == Words{"a", "-b", "--"});
  CHECK(parse_with({"wait", "--timeout", "--", "a", "--", "--for"}).arguments.rest() ==
        Words{"a", "--for"});
  CHECK(parse_with({"--", "ls"}).command->name == "ls");
  CHECK(usage_error({"inspect", "-w.pt", "--"}) == "unknown flag -w.pt.");
}

TEST_CASE("colours are disabled by a flag or its variable, also of wrong words") {
  const auto disabled = [](const Words& words, const char* variable) {
    return disables_color(words, [=](const char* name) {
      return std::string_view(name) == "ADAPTDL_NO_COLOR" ? variable : nullptr;
    });
  };
  CHECK_FALSE(disabled({"runn"}, nullptr));
  CHECK(disabled({"runn", "--no-color"}, nullptr));
  CHECK(disabled({"runn"}, "1"));
  CHECK_FALSE(disabled({"runn"}, "0"));
  CHECK_FALSE(disabled({"runn"}, ""));
  CHECK_FALSE(disabled({"runn"}, "maybe"));
  CHECK_FALSE(disabled({"runn", "--no-color=false"}, "1"));
  CHECK_FALSE(disabled({"run", "x", "--", "--no-color"}, nullptr));
}

TEST_CASE("what is on the line is told from what a variable sets") {
  const Arguments arguments =
      parse_with({"run", "x.pt", "--name", "n"}, {{"ADAPTDL_RUN_REPLICAS", "2"}}).arguments;
  CHECK(arguments.on_line("name"));
  CHECK(arguments.given("replicas"));
  CHECK_FALSE(arguments.on_line("replicas"));
}

TEST_CASE("a name that a flag has besides") {
  for (const char* name : {"-f", "--file", "--jobfile"}) {
    CHECK(parse_with({"submit", name, "job.yaml"}).arguments.text("file") == "job.yaml");
  }
}

TEST_CASE("a duration is read where it is used, within bounds") {
  const Parsed parsed = parse_with({"wait", "a", "--timeout=1m 30s"});
  CHECK(parsed.arguments.seconds("timeout") == 90);
  CHECK(parsed.arguments.seconds("timeout", 90, 90) == 90);
  CHECK_THROWS_AS(parsed.arguments.seconds("timeout", 0, 89), UsageError);
  CHECK_THROWS_AS(parsed.arguments.seconds("timeout", 91), UsageError);
  CHECK_THROWS_AS(parse_with({"wait", "a", "--timeout=soon"}).arguments.seconds("timeout"),
                  UsageError);
  try {
    parse_with({"wait", "a", "--timeout=-1"}).arguments.seconds("timeout");
    FAIL("a negative duration");
  } catch (const UsageError& error) {
    CHECK(contains(error.what(), "--timeout"));
  }
}

TEST_CASE("repeated flags add up; other flags keep the last") {
  const Words words = {"run",    "--set", "a=1",    "x.pt", "--set=b=[1,2]",
                       "--name", "n",     "--name", "m"};
  const Parsed parsed = parse_with(words);
  CHECK(parsed.arguments.list("set") == Words{"a=1", "b=[1,2]"});
  CHECK(parsed.arguments.text("name") == "m");
  const Parsed from_environment = parse_with({"run", "x.pt"}, {{"ADAPTDL_RUN_SET", "a=1  b=2"}});
  CHECK(from_environment.arguments.list("set") == Words{"a=1", "b=2"});
}

TEST_CASE("what follows -- belongs to the program") {
  const Parsed parsed = parse_with({"run", "prog", "--", "--replicas", "9", "--", "-x"});
  CHECK(parsed.arguments.rest() == Words{"--replicas", "9", "--", "-x"});
  CHECK(parsed.arguments.text("replicas") == "1");
}

TEST_CASE("mistakes are named, with a suggestion") {
  CHECK(contains(usage_error({"runn"}), "Did you mean run?"));
  CHECK(contains(usage_error({"help", "inspct"}), "Did you mean inspect?"));
  CHECK(contains(usage_error({"run", "x.pt", "--replica", "3"}), "Did you mean --replicas?"));
  CHECK(contains(usage_error({"run", "x.pt", "--zzz"}), "unknown flag --zzz."));
  CHECK(contains(usage_error({"run", "x.pt", "-Z"}), "unknown flag -Z."));
  CHECK(usage_error({"submit", "project", "--lr", "0.1"}) ==
        "unknown flag --lr. Give arguments of the program after --.");
  CHECK(contains(usage_error({"run", "x.pt", "--replicas"}), "--replicas"));
  CHECK(contains(usage_error({"inspect"}), "PATH is missing"));
  CHECK(contains(usage_error({"run", "x.pt", "y"}), "unexpected argument"));
  CHECK(contains(usage_error({"run", "x.pt", "-o", "jsn"}), "Did you mean json?"));
  CHECK(contains(usage_error({"run", "x.pt", "--threads", "-1"}), "--threads"));
  CHECK(contains(usage_error({"run", "x.pt", "--threads", "1e3"}), "--threads"));
  CHECK(contains(usage_error({"run", "x.pt"}, {{"ADAPTDL_RUN_DEVICE", "tpu"}}),
                 "ADAPTDL_RUN_DEVICE"));
}

TEST_CASE("torchrun: hosts meet at --master-port of --master-addr, if nothing else says where") {
  const auto meet = [](Words words) {
    words.insert(words.begin(), {"torchrun", "--nnodes", "2"});
    words.push_back("train.py");
    return meet_at_master_port(parse_with(words).arguments);
  };
  CHECK(meet({"--master-addr", "node1", "--master-port", "29500"}));
  CHECK(meet({"--master-addr", "[fd00::1]", "--master-port", "29500"}));
  CHECK_FALSE(meet({"--master-addr", "node1"}));
  CHECK_FALSE(meet({"--master-port", "29500"}));
  CHECK_FALSE(meet({"--master-addr", "node1:1", "--master-port", "29500"}));
  CHECK_FALSE(meet({"--master-addr", "[fd00::1]:1", "--master-port", "29500"}));
  CHECK_FALSE(
      meet({"--master-addr", "node1", "--master-port", "29500", "--rdzv-endpoint", "node2"}));
  CHECK_FALSE(meet_at_master_port(parse_with({"run", "train.pt"}).arguments));
}

TEST_CASE("hidden commands work, but are not suggested") {
  CHECK(parse_with({"__dump-cli"}).command->name == "__dump-cli");
  CHECK_FALSE(contains(usage_error({"__dump-cl"}), "Did you mean"));
}

}  // namespace
}  // namespace adaptdl::cli
