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
  memory.said({{"type", "hello"}, {"protocol", 1}}, true);
  memory.told({{"type", "welcome"}});
  memory.told(generation(4));
  memory.said({{"type", "connected"}, {"generation", 4}}, true);
  memory.said({{"type", "lost"}, {"generation", 4}}, true);
  memory.told(generation(5));
  memory.said({{"type", "connected"}, {"generation", 5}}, true);
  memory.said({{"type", "switched"}, {"generation", 5}, {"step", 9}}, true);
  CHECK(types(memory) == std::vector<std::string>{"hello", "connected", "switched"});
  memory.said({{"type", "lost"}, {"generation", 5}}, false);
  memory.told(generation(6));
  CHECK(types(memory) == std::vector<std::string>{"hello", "connected", "switched", "lost"});
  const json expected = {
      {{"generation", 5}, {"immediate", true}, {"members", {3, 5}}, {"cause", "death"}},
      {{"generation", 6}, {"immediate", true}, {"members", {3, 5}}, {"cause", "death"}}};
  CHECK(memory.generations() == expected);
}

TEST_CASE("only events that no launcher has heard are kept, before its last words") {
  ReplicaMemory memory;
  const auto event = [](int step) {
    return json{{"type", "event"}, {"event", {{"event", "step"}, {"step", step}}}};
  };
  memory.said(event(1), true);
  memory.said(event(2), false);
  memory.said({{"type", "bye"}, {"result", "finished"}}, false);
  memory.said(event(3), false);
  REQUIRE(types(memory) == std::vector<std::string>{"event", "event", "bye"});
  CHECK(memory.messages()[0] == event(2));
  memory.heard();
  CHECK(types(memory) == std::vector<std::string>{"bye"});
}
