#include "core/cluster/kubernetes/nodes/placeholders.h"

#include <doctest/doctest.h>

using namespace adaptdl;
using namespace adaptdl::kubernetes;

TEST_CASE("more is followed at once, less when it has lasted") {
  SteadyWish wish(600);
  CHECK(wish.add(0, 3) == 3);
  CHECK(wish.add(30, 5) == 5);
  CHECK(wish.add(60, 2) == 5);
  CHECK(wish.add(90, 4) == 5);
  CHECK(wish.add(629, 1) == 5);
  CHECK(wish.add(631, 1) == 4);  // the 5 is older than the patience, the 4 is not
  CHECK(wish.add(691, 1) == 1);
  CHECK(wish.add(692, 2) == 2);
}

TEST_CASE("placeholders that move least go first") {
  const std::vector<Placeholder> present = {{"a", "1", "n1", false},
                                            {"b", "2", "n2", false},
                                            {"c", "3", "", false},
                                            {"d", "4", "n3", true},
                                            {"e", "5", "n4", false}};
  const std::map<std::string, int> replicas = {{"n1", 1}, {"n2", 4}};
  const auto names = [&](int wished) {
    std::string text;
    for (const Placeholder& one : plan_placeholders(present, wished, replicas).remove) {
      text += one.name;
    }
    return text;
  };
  CHECK(names(9) == "d");
  CHECK(plan_placeholders(present, 9, replicas).make == 5);
  CHECK(names(4) == "d");
  CHECK(plan_placeholders(present, 4, replicas).make == 0);
  CHECK(names(3) == "dc");
  CHECK(names(2) == "dec");
  CHECK(names(1) == "daec");
  CHECK(names(0) == "dbaec");
  CHECK(plan_placeholders(present, 1, replicas).make == 0);
  CHECK(plan_placeholders({}, 2, replicas).make == 2);
}

TEST_CASE("a placeholder's pod is what an installation says") {
  const Json pod = make_placeholder("adaptdl", "adaptdl-placeholder-x", "pause:1",
                                    {{"priorityClassName", "low"}});
  CHECK(pod["metadata"]["namespace"] == "adaptdl");
  CHECK(pod["metadata"]["name"] == "adaptdl-placeholder-x");
  CHECK(pod["spec"]["priorityClassName"] == "low");
  CHECK(pod["spec"]["containers"][0]["image"] == "pause:1");
  CHECK(pod["spec"]["affinity"].contains("podAntiAffinity"));
  CHECK(make_placeholder("adaptdl", "x", "pause:1", nullptr)["metadata"]["name"] == "x");
}
