#include "core/launch/io/run_report.h"

#include <doctest/doctest.h>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace {

using Fields = std::set<std::string>;

std::string source(const std::string& path) {
  return read_file(std::string(ADAPTDL_SOURCE_ROOT "/") + path, 1 << 20);
}

// What the manual sets in bold, in tags or anywhere, by kind of event: `tags` are fields for sure,
// elsewhere a value may be among them.
struct Manual {
  std::map<std::string, Fields> tags, words;
};

Manual read_manual() {
  Manual manual;
  std::string kind;
  bool tag = false;
  std::string line;
  for (const char c : source("man/adaptdl-events.5") + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.starts_with(".SS ")) kind = line.substr(4);
    if (line.starts_with(".SH ")) kind.clear();
    for (size_t at = line.find("\\fB"); !kind.empty() && at != std::string::npos;
         at = line.find("\\fB", at + 1)) {
      const std::string word = line.substr(at + 3, line.find("\\f", at + 3) - at - 3);
      manual.words[kind].insert(word);
      if (tag) manual.tags[kind].insert(word);
    }
    tag = line == ".TP";
    line.clear();
  }
  return manual;
}

Fields fields_of(const json& event) {
  Fields fields;
  for (const auto& item : event.items()) fields.insert(item.key());
  fields.erase("event");
  fields.erase("time_s");
  return fields;
}

// Events as the report writes them.
std::map<std::string, json> all_events() {
  std::map<std::string, json> events;
  {
    OutputQueue output({[&](const json& event) { events[event["event"]] = event; }}, nullptr);
    RunReport report({.name = "run", .program = "train.pt"}, output, [](const json&, bool) {});
    report.start({});
    report.generation({.number = 1, .members = {0, 1}, .cause = "start", .step = 0});
    report.failure({.member = 1, .reason = "exit code 3", .status = ExitStatus{false, 3}});
    report.end({.result = "finished"});
  }
  return events;
}

}  // namespace

TEST_CASE("report: events have the fields that adaptdl-events(5) names, and no others") {
  const Manual manual = read_manual();
  // Said by rank 0, or of a run that had finished before.
  const Fields others{"model", "validation", "already"};
  for (const auto& [kind, event] : all_events()) {
    CAPTURE(kind);
    REQUIRE(manual.tags.count(kind) == 1);
    for (const std::string& field : fields_of(event)) {
      CAPTURE(field);
      CHECK(manual.words.at(kind).count(field) == 1);
    }
    for (const std::string& field : manual.tags.at(kind)) {
      CAPTURE(field);
      CHECK((event.contains(field) || (kind == "end" && others.count(field) == 1)));
    }
  }
}

TEST_CASE("report: every kind of event in adaptdl-events(5) is written by somebody") {
  const std::map<std::string, json> own = all_events();
  const std::string replicas = source("runtime/session/reporter.cpp") +
                               source("runtime/session/checkpointer.cpp") +
                               source("core/launch/io/run_report.cpp");
  for (const auto& [kind, words] : read_manual().words) {
    CAPTURE(kind);
    if (own.count(kind) == 1) continue;
    CHECK(replicas.find("{\"event\", \"" + kind + "\"}") != std::string::npos);
    const Manual manual = read_manual();
    if (manual.tags.count(kind) == 0) continue;
    for (const std::string& field : manual.tags.at(kind)) {
      CAPTURE(field);
      CHECK(replicas.find("\"" + field + "\"") != std::string::npos);
    }
  }
}

TEST_CASE("report: a record that cannot be written is told of once") {
  std::vector<std::string> said;
  {
    OutputQueue output({}, [&](const std::string& line) { said.push_back(line); });
    RunReport report({.name = "run"}, output, [](const json&, bool) { fail("disk full"); });
    report.record("starting", {});
    report.record("training", {});
    CHECK(report.recorded()["state"] == "training");
  }
  CHECK(said == std::vector<std::string>{"cannot write the record of this run: disk full"});
}
