#include "core/formats/json_path.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

using adaptdl::Error;
using adaptdl::Json;
using adaptdl::json_path_text;

namespace {

const Json kValue = {
    {"jobs",
     {{{"name", "a"}, {"phase", "Failed"}, {"replicas", 2}, {"reason", nullptr}},
      {{"name", "b"}, {"phase", "Running"}, {"replicas", 0}, {"labels", {{"adaptdl/x", "y"}}}}}},
    {"count", 2}};

std::string text(std::string_view path) {
  return json_path_text(kValue, path);
}

}  // namespace

TEST_CASE("json path: names, places, all of them") {
  CHECK(text("{.jobs[*].name}") == "a b");
  CHECK(text("{$.jobs[0].name}") == "a");
  CHECK(text("{.jobs[-1].name}") == "b");
  CHECK(text("{.jobs[1]['labels']['adaptdl/x']}") == "y");
  CHECK(text("{.jobs[0].*}") == "a Failed null 2");
  CHECK(text("{.count}") == "2");
  CHECK(text("{.}") == adaptdl::dump_json(kValue));
  CHECK(text("n={.count}, that is all") == "n=2, that is all");
}

TEST_CASE("json path: what is not there prints nothing") {
  CHECK(text("{.jobs[7].name}{.jobs[-3]}{.nothing.there}{.count.x}{.count[0]}{.count[*]}") == "");
}

TEST_CASE("json path: ranges begin at their item, and may be in each other") {
  CHECK(text(R"({range .jobs[*]}{.name}:{.replicas}{"\n"}{end})") == "a:2\nb:0\n");
  CHECK(text(R"({range .jobs[*]}{range $.jobs[*]}{.name}{end}{'\t'}{end}.)") == "ab\tab\t.");
}

TEST_CASE("json path: filters") {
  CHECK(text(R"({.jobs[?(@.phase=="Failed")].name})") == "a");
  CHECK(text(R"({.jobs[?(@.phase != 'Failed')].name})") == "b");
  CHECK(text("{.jobs[?(@.replicas==0)].name}") == "b");
  CHECK(text("{.jobs[?(@.reason==null)].name}") == "a");
  CHECK(text("{.jobs[?(@.labels)].name}") == "b");
}

TEST_CASE("json path: mistakes are told with their place") {
  for (const char* wrong :
       {"{.jobs", "{", "{}", "{jobs}", "{.jobs[}", "{.jobs[x]}", "{..name}", "{range .jobs[*]}",
        "{end}", "{\"x}", "{.jobs[?(@.a==b)]}", "{.a b}", "{.jobs[?(.a)}", "{.a-}{.}{. a}"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(text(wrong), doctest::Contains("jsonpath, at character"), Error);
  }
  std::string deep = "{.";
  for (int i = 0; i < 100; ++i) deep += "[?(@";
  CHECK_THROWS_AS(text(deep), Error);
}
