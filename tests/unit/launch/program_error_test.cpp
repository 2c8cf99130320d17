#include "core/launch/command/program_error.h"

#include <csignal>
#include <doctest/doctest.h>

#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

EndedReplica ended(int rank, double at_s, int code = 1) {
  return {.rank = rank, .status = {false, code}, .at_s = at_s};
}

ProgramError said(const std::string& message, std::optional<double> at_s = {}) {
  return {.message = message, .traceback = {}, .at_s = at_s};
}

}  // namespace

TEST_CASE("program error: what record() writes") {
  const auto error = parse_program_error(R"({"message": {"message": "ValueError: odd\nnumber",
    "extraInfo": {"py_callstack": "Traceback:\n  File \"t.py\", line 7\n\nValueError: odd\n",
                  "timestamp": "1767225600"}}})");
  REQUIRE(error);
  CHECK(error->message == "ValueError: odd number");
  CHECK(error->traceback ==
        std::vector<std::string>{"Traceback:", "  File \"t.py\", line 7", "ValueError: odd"});
  CHECK(error->at_s == 1767225600);
  CHECK(parse_program_error(R"({"message": "killed"})")->message == "killed");
  CHECK_FALSE(parse_program_error(R"({"message": {"extraInfo": {"timestamp": 5}}})"));
}

TEST_CASE("program error: whatever else there is") {
  for (const char* text :
       {"", "{", "[]", "7", R"({"message": 7})", R"({"message": {"message": 7}})",
        R"({"message": {"message": "", "extraInfo": []}})"}) {
    CHECK_FALSE(parse_program_error(text));
  }
  const std::string many = R"({"message": {"message": "\u001b[31m)" + std::string(5000, 'x') +
                           R"(", "extraInfo": {"timestamp": "soon", "py_callstack": ")" +
                           std::string(100, 'y') + R"(\n)" + std::string(100, 'z') + R"("}}})";
  const auto error = parse_program_error(many);
  REQUIRE(error);
  CHECK(error->message.size() < 600);
  CHECK(error->message[0] == ' ');
  CHECK_FALSE(error->at_s);
  TemporaryDirectory folder("adaptdl-error");
  CHECK_FALSE(read_program_error(folder.file("none")));
  CHECK_FALSE(read_program_error(folder.path()));
}

TEST_CASE("first failure: the one that ended first, unless exceptions say otherwise") {
  CHECK(first_failure({}) == -1);
  CHECK(first_failure({ended(0, 10, 0)}) == -1);
  CHECK(first_failure({ended(1, 10.1), ended(0, 10.2)}) == 0);
  std::vector<EndedReplica> both{ended(1, 12.1), ended(0, 12.9)};
  both[0].error = said("KeyError: a", 12);
  both[1].error = said("KeyError: b", 11);
  CHECK(first_failure(both) == 1);
  both[1].error->at_s = 12;  // whole seconds: the same
  CHECK(first_failure(both) == 0);
  both[1].error->at_s = 1e12;  // a clock that is wrong
  CHECK(first_failure(both) == 0);
}

TEST_CASE("first failure: who lost a peer follows whoever else failed") {
  std::vector<EndedReplica> both{ended(0, 10.1), ended(1, 12)};
  both[0].log = {"RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer"};
  CHECK(first_failure(both) == 1);
  both[1].log = {"Connection reset by peer"};
  CHECK(first_failure(both) == 0);
  both[0].error = said("KeyError: a");  // what it tells counts more than what it printed
  CHECK(first_failure(both) == 0);
}

TEST_CASE("first failure: who was asked to end did not fail, unless it tells an exception") {
  std::vector<EndedReplica> both{ended(0, 10), ended(1, 10.5)};
  both[0].status = {true, SIGTERM};
  both[0].asked = true;
  CHECK(first_failure(both) == 1);
  both[0].status = {false, 1};
  CHECK(first_failure(both) == 1);
  both[0].error = said("KeyError: a", 9);
  CHECK(first_failure(both) == 0);
}
