#include "core/launch/hosts/roster.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

Roster roster_of(int agents, bool shared, uint16_t port = 1) {
  Roster roster{.number = 7, .run_id = "r", .shared = shared, .size = agents + 1, .hosts = {}};
  for (int i = 0; i < agents; ++i) {
    roster.hosts.push_back({std::to_string(i), "10.0.0.1", port});
  }
  return roster;
}

}  // namespace

TEST_CASE("of two sides at most one goes on, and of any two halves one does") {
  for (int size = 1; size <= 100; ++size) {
    for (int others = 0; others < size; ++others) {
      const bool without = others >= enough_without_launcher(size);
      const bool with = size - others >= enough_with_launcher(size);
      CAPTURE(size);
      CAPTURE(others);
      CHECK(without != with);
    }
  }
}

TEST_CASE("who may go on without the launcher") {
  CHECK_FALSE(may_go_on(Roster{}, "0"));
  CHECK_FALSE(may_go_on(roster_of(2, false), "stranger"));
  CHECK_FALSE(may_go_on(roster_of(1, false), "0"));  // one of two
  CHECK(may_go_on(roster_of(1, true), "0"));
  CHECK(may_go_on(roster_of(2, false), "1"));
  CHECK_FALSE(may_go_on(roster_of(2, true, 0), "1"));  // nobody would lead
  CHECK(needed_to_lead(roster_of(4, true)) == 1);
  CHECK(needed_to_lead(roster_of(4, false)) == 3);
}

TEST_CASE("a roster as JSON") {
  const Roster roster = roster_of(2, true, 65535);
  const auto json = to_json(roster);
  CHECK(to_json(roster_from_json(json, "roster")) == json);
  for (const char* broken : {R"({})",
                             R"({"number":1,"run_id":"r","shared":true,"size":0,)"
                             R"("hosts":[{"id":"a","address":"","port":1}]})",
                             R"({"number":1,"run_id":"r","shared":true,"size":5000,"hosts":[]})",
                             R"({"number":1,"run_id":"r","shared":true,"size":1,"hosts":[1]})"}) {
    CAPTURE(broken);
    CHECK_THROWS_AS(roster_from_json(nlohmann::json::parse(broken), "roster"), Error);
  }
}
