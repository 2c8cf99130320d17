#include "core/launch/io/run_report.h"

#include <doctest/doctest.h>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <vector>

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

// Fields that the text of a function sets, from `begin` to its end: {"FIELD", and ["FIELD"].
Fields fields_set(const std::string& text, size_t begin) {
  Fields fields;
  const std::string body = text.substr(begin, text.find("\n}\n", begin) - begin);
  for (const std::string opening : {"{\"", "[\""}) {
    for (size_t at = body.find(opening); at != body.npos; at = body.find(opening, at + 1)) {
      const size_t name = at + opening.size();
      fields.insert(body.substr(name, body.find('"', name) - name));
    }
  }
  fields.erase("event");
  return fields;
}

// What replicas say, by kind of event, as their sources show it; a function makes one event.
std::map<std::string, Fields> fields_from_replicas() {
  std::map<std::string, Fields> events;
  std::vector<std::string> names;
  for (const std::string folder : {"runtime/session/", "runtime/session/report/"}) {
    for (const std::string& name : list_directory(ADAPTDL_SOURCE_ROOT "/" + folder)) {
      if (name != "report") names.push_back(folder + name);
    }
  }
  for (const std::string& name : names) {
    const std::string text = source(name);
    const std::string opening = "{\"event\", \"";
    for (size_t at = text.find(opening); at != text.npos; at = text.find(opening, at + 1)) {
      const size_t kind = at + opening.size();
      events[text.substr(kind, text.find('"', kind) - kind)].merge(fields_set(text, at));
    }
  }
  const std::string launcher = source("core/launch/io/run_report.cpp");
  events["rescale"].merge(fields_set(launcher, launcher.find("void RunReport::rescale(")));
  return events;
}

// Events as the report writes them.
std::map<std::string, json> all_events() {
  std::map<std::string, json> events;
  {
    OutputQueue output({[&](const json& event) { events[event["event"]] = event; }}, nullptr);
    RunReport report({.name = "run", .program = "train.pt"}, output, [](const json&, bool) {});
    report.start({.evaluate = true});
    report.generation({.number = 1, .members = {0, 1}, .cause = "start", .step = 0});
    report.failure({.member = 1, .reason = "exit code 3", .status = ExitStatus{false, 3}});
    report.hang({.members = {0, 1}, .seconds = 300, .step = 4, .file = "hang-0.txt"});
    report.mirror({.step = 4, .place = "s3://training/digits", .bytes = 9, .seconds = 1});
    report.straggler({.state = "slow", .member = 1});
    report.slow_link({.state = "slow", .member = 1});
    report.gpu({.member = 1, .gpu = {.name = "NVIDIA H200"}});
    report.end({.result = "finished"});
  }
  std::promise<void> read;
  const std::shared_future<void> has_read = read.get_future().share();
  {
    OutputQueue output({[&](const json& event) {
                         if (event["event"] == "dropped") events["dropped"] = event;
                         has_read.wait();
                       }},
                       nullptr, 1);
    for (int i = 1; i <= 4; ++i) output.event({{"event", "step"}, {"step", i}, {"time_s", i}});
    read.set_value();
  }
  return events;
}

}  // namespace

TEST_CASE("report: events have the fields that adaptdl-events(5) names, and no others") {
  const Manual manual = read_manual();
  // Said by rank 0, or of a run that had finished before.
  const Fields others{"model", "validation", "progress", "skipped", "already", "ended_by", "best"};
  for (const auto& [name, event] : all_events()) {
    const std::string& kind = name;
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

TEST_CASE("report: replicas say what adaptdl-events(5) names, and nothing else") {
  const Manual manual = read_manual();
  const std::map<std::string, json> own = all_events();
  const std::map<std::string, Fields> written = fields_from_replicas();
  for (const auto& [name, fields] : written) {
    const std::string& kind = name;
    CAPTURE(kind);
    REQUIRE(manual.words.count(kind) == 1);
    for (const std::string& field : fields) {
      CAPTURE(field);
      CHECK(manual.words.at(kind).count(field) == 1);
    }
  }
  for (const auto& [name, words] : manual.words) {
    const std::string& kind = name;
    CAPTURE(kind);
    if (own.count(kind) == 1) continue;
    REQUIRE(written.count(kind) == 1);
    if (manual.tags.count(kind) == 0) continue;
    for (const std::string& field : manual.tags.at(kind)) {
      CAPTURE(field);
      CHECK(written.at(kind).count(field) == 1);
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

TEST_CASE("report: however long nobody reads, what waits is bounded, and counted if dropped") {
  std::mutex stopped;
  std::unique_lock lock(stopped);
  std::vector<json> seen;
  size_t missing = 0;
  {
    OutputQueue output({[&](const json& event) {
                         const std::lock_guard wait(stopped);
                         if (event["event"] == "dropped") {
                           missing += event["events"].get<size_t>();
                         } else {
                           seen.push_back(event);
                         }
                       }},
                       nullptr, 2);
    for (int i = 0; i < 5; ++i) output.event({{"event", "step"}, {"n", i}});
    for (int i = 0; i < 100; ++i) output.event({{"event", "rescale"}, {"n", i}});
    CHECK(output.dropped() >= 105 - 33);  // one may have been taken already
    lock.unlock();
  }
  REQUIRE(seen.size() >= 32);
  CHECK(seen.size() <= 33);
  CHECK(seen.size() + missing == 105);
  CHECK(seen.back()["n"] == 99);
}
