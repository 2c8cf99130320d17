#include "core/sim/timeline.h"

#include <doctest/doctest.h>
#include <map>

using namespace adaptdl;

namespace {

using Kind = TimelineEvent::Kind;
using Names = std::vector<std::string>;

const std::vector<ClusterNode> kNodes = {
    {"a", "", {{"gpu", 2}}}, {"cpu-only", "", {}}, {"b", "", {{"gpu", 2}}}};

Json allocate(Timeline& timeline, double time_s, const std::string& job, const Names& nodes) {
  return timeline.add({.time_s = time_s,
                       .kind = Kind::allocate,
                       .name = job,
                       .nodes = nodes,
                       .batch = {16, 1, 0},
                       .why = "because"});
}

Names gpus(const Json& record) {
  return record.at("gpus").get<Names>();
}

void check_no_overlap(const std::vector<GpuSpan>& spans) {
  for (size_t i = 0; i < spans.size(); ++i) {
    CHECK(spans[i].from_s < spans[i].to_s);
    for (size_t k = 0; k < i; ++k) {
      const bool apart = spans[i].to_s <= spans[k].from_s || spans[k].to_s <= spans[i].from_s;
      CHECK((spans[i].gpu != spans[k].gpu || apart));
    }
  }
}

}  // namespace

TEST_CASE("a job takes the first free GPUs of its nodes, and keeps those that it has") {
  Timeline timeline(kNodes);
  CHECK(timeline.gpus() == 4);
  CHECK(gpus(allocate(timeline, 0, "x", {"a"})) == Names{"a/0"});
  CHECK(gpus(allocate(timeline, 0, "y", {"a", "b"})) == Names{"a/1", "b/0"});
  CHECK(gpus(allocate(timeline, 10, "x", {})) == Names{});
  CHECK(gpus(allocate(timeline, 20, "y", {"a", "b", "b"})) == Names{"a/1", "b/0", "b/1"});
  timeline.close(30);
  REQUIRE(timeline.spans().size() == 6);
  check_no_overlap(timeline.spans());
  CHECK(timeline.spans()[0].job == "x");
  CHECK(timeline.spans()[0].to_s == 10);
}

TEST_CASE("two jobs that change places at one moment never share a GPU") {
  Timeline timeline(kNodes);
  allocate(timeline, 0, "x", {"a", "a"});
  allocate(timeline, 0, "y", {"b", "b"});
  // y's event comes before x has left.
  CHECK(gpus(allocate(timeline, 60, "y", {"a", "a"})) == Names{"a/0", "a/1"});
  CHECK(gpus(allocate(timeline, 60, "x", {"b", "b"})) == Names{"b/0", "b/1"});
  CHECK(gpus(allocate(timeline, 120, "y", {"a"})) == Names{"a/0"});
  timeline.close(180);
  check_no_overlap(timeline.spans());
  std::map<std::string, double> seconds;
  for (const GpuSpan& span : timeline.spans()) seconds[span.job] += span.to_s - span.from_s;
  CHECK(seconds["x"] == 2 * 180);
  CHECK(seconds["y"] == 2 * 120 + 60);
}

TEST_CASE("a job that finishes lets its GPUs go at its own time") {
  Timeline timeline(kNodes);
  allocate(timeline, 0, "x", {"a"});
  timeline.add({.time_s = 50, .kind = Kind::finish, .name = "x"});
  CHECK(gpus(allocate(timeline, 60, "y", {"a"})) == Names{"a/0"});
  timeline.close(60);  // y has held it for no time yet
  REQUIRE(timeline.spans().size() == 1);
  CHECK(timeline.spans()[0].to_s == 50);
}

TEST_CASE("records say what happened") {
  Timeline timeline(kNodes);
  const Json submit = timeline.add({.time_s = 1, .kind = Kind::submit, .name = "x"});
  CHECK(submit == Json{{"event", "submit"}, {"time_s", 1.0}, {"job", "x"}});
  const Json given = allocate(timeline, 2, "x", {"a"});
  CHECK(given == Json{{"event", "allocate"},
                      {"time_s", 2.0},
                      {"job", "x"},
                      {"gpus", {"a/0"}},
                      {"atomic_batch", 16},
                      {"accumulation", 1},
                      {"why", "because"}});
  const Json taken = allocate(timeline, 3, "x", {});
  CHECK(taken.at("gpus") == Json::array());
  CHECK_FALSE(taken.contains("atomic_batch"));
  const Json lost = timeline.add({.time_s = 4, .kind = Kind::node_lost, .name = "a"});
  CHECK(lost == Json{{"event", "node_lost"}, {"time_s", 4.0}, {"node", "a"}});
}
