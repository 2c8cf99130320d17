#include "cli/show/job_order.h"

#include <doctest/doctest.h>
#include <optional>

namespace adaptdl::cli {
namespace {

JobRow row(const std::string& name, const std::string& replicas, std::optional<double> left,
           std::optional<double> goodput) {
  JobRow made;
  made.name = name;
  made.replicas = replicas;
  made.training.seconds_left = left;
  made.training.goodput = goodput;
  return made;
}

std::string sorted(std::string_view order, bool reverse = false) {
  std::vector<JobRow> rows = {row("c", "2 -> 3", 50, 7), row("a", "0", {}, {}),
                              row("d", "10", 5, 9), row("b", "-", {}, 8)};
  sort_rows(rows, order, reverse);
  std::string names;
  for (const JobRow& each : rows) names += each.name;
  return names;
}

TEST_CASE("orders of jobs") {
  CHECK(sorted("submitted") == "cadb");
  CHECK(sorted("submitted", true) == "bdac");
  CHECK(sorted("name") == "abcd");
  CHECK(sorted("name", true) == "dcba");
  CHECK(sorted("replicas") == "dcab");
  CHECK(sorted("replicas", true) == "acdb");
  CHECK(sorted("goodput") == "dbca");
}

TEST_CASE("jobs without the value come last, in order of submission") {
  CHECK(sorted("left") == "dcab");
  CHECK(sorted("left", true) == "cdab");
  CHECK(sorted("batch") == "cadb");
}

TEST_CASE("every order can be used") {
  for (const std::string_view order : job_orders()) CHECK(sorted(order).size() == 4);
}

}  // namespace
}  // namespace adaptdl::cli
