#include "core/launch/hosts/replica_memory.h"

#include <doctest/doctest.h>

using namespace adaptdl::launch;
using nlohmann::json;

namespace {

json generation(int number) {
  return {{"type", "generation"},
          {"generation", number},
          {"immediate", true},
          {"members", {{{"member", 3}, {"endpoint", "e"}}, {{"member", 5}, {"endpoint", "f"}}}},
          {"cause", "death"},
          {"threads", 2}};
}

std::vector<std::string> types(const ReplicaMemory& memory) {
  std::vector<std::string> all;
  for (const json& message : memory.messages()) all.push_back(message["type"]);
  return all;
}

}  // namespace

TEST_CASE("a replica's newest states are told in an order in which they can be taken") {
  ReplicaMemory memory;
  memory.said({{"type", "hello"}, {"protocol", 1}});
  memory.told({{"type", "welcome"}});
  memory.told(generation(4));
  memory.said({{"type", "connected"}, {"generation", 4}});
  memory.said({{"type", "lost"}, {"generation", 4}});
  memory.told(generation(5));
  memory.said({{"type", "connected"}, {"generation", 5}});
  memory.said({{"type", "switched"}, {"generation", 5}, {"step", 9}});
  CHECK(types(memory) == std::vector<std::string>{"hello", "connected", "switched"});
  memory.said({{"type", "lost"}, {"generation", 5}});
  memory.told(generation(6));
  CHECK(types(memory) == std::vector<std::string>{"hello", "connected", "switched", "lost"});
  const json expected = {
      {{"generation", 5}, {"immediate", true}, {"members", {3, 5}}, {"cause", "death"}},
      {{"generation", 6}, {"immediate", true}, {"members", {3, 5}}, {"cause", "death"}}};
  CHECK(memory.generations() == expected);
}

TEST_CASE("events that no launcher has passed on are kept, before its last words") {
  ReplicaMemory memory;
  const auto event = [](int step) {
    return json{{"type", "event"}, {"event", {{"event", "step"}, {"step", step}}}};
  };
  const auto kept = [&] {
    std::vector<int> steps;
    for (const json& message : memory.messages()) {
      steps.push_back(message["type"] == "event" ? message["event"]["step"].get<int>() : 0);
    }
    return steps;
  };
  for (const int step : {1, 2}) memory.said(event(step));
  memory.said({{"type", "bye"}, {"result", "finished"}});
  memory.said(event(3));
  memory.passed_on(1);
  CHECK(kept() == std::vector<int>{2, 3, 0});
  memory.passed_on(1);
  CHECK(kept() == std::vector<int>{2, 3, 0});
  // Another launcher gets these two, and two more.
  memory.told_again();
  for (const int step : {4, 5}) memory.said(event(step));
  memory.passed_on(3);
  CHECK(kept() == std::vector<int>{5, 0});
  memory.passed_on(1'000);
  CHECK(kept() == std::vector<int>{0});
}
