#include "core/launch/run/event_stream.h"

#include <doctest/doctest.h>

#include "core/launch/io/output_queue.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using nlohmann::json;

namespace {

json step(int64_t number) {
  return {{"event", "step"}, {"step", number}};
}

// Member 1 trains alone since step 5, by a launcher that takes over.
struct Taken {
  std::vector<int64_t> steps;
  OutputQueue output{{[this](const json& event) {
                       if (event["event"] == "step") steps.push_back(event["step"].get<int64_t>());
                     }},
                     Talk()};
  RunReport report{RunIdentity(), output, RunReport::Keep()};
  EventStream stream{report, true, [](int64_t) {}};
  View view;

  Taken() {
    view.members.push_back({.id = 1, .state = MemberState::active, .switched = 2});
    view.current = {.number = 2, .members = {1}, .immediate = true, .cause = "death"};
    stream.switched(2, 5);
  }

  std::vector<int64_t> all() {
    output.drain(Monotonic::now() + std::chrono::seconds(10));
    return steps;
  }
};

}  // namespace

TEST_CASE("a launcher that takes over emits nothing before it leads") {
  Taken run;
  run.stream.event(1, step(6));
  run.stream.advance(run.view);
  CHECK(run.stream.holds_any());
  CHECK(run.all().empty());
  run.stream.lead({});
  run.stream.advance(run.view);
  CHECK_FALSE(run.stream.holds_any());
  CHECK(run.all() == std::vector<int64_t>{6});
}

TEST_CASE("a step that is no integer of its type is none") {
  Taken run;
  run.stream.lead({});
  run.stream.advance(run.view);
  for (const json& number : {json(1e300), json(-1e300), json("7"), json(6.5)}) {
    run.stream.event(1, {{"event", "step"}, {"step", number}});
  }
  run.stream.event(1, step(6));
  CHECK(run.all() == std::vector<int64_t>{6});
}

TEST_CASE("a launcher that takes over goes on after the step that the lost one has emitted last") {
  Taken run;
  for (const int number : {7, 8, 9}) run.stream.event(1, step(number));
  run.stream.lead({2, 7});
  run.stream.advance(run.view);
  CHECK(run.stream.last_step() == 9);
  CHECK(run.all() == std::vector<int64_t>{8, 9});
}

TEST_CASE("a lost launcher had not emitted the last steps of the generation before") {
  Taken run;
  for (const int number : {3, 4, 5, 6}) run.stream.event(1, step(number));
  run.stream.lead({1, 3});
  run.stream.advance(run.view);
  CHECK(run.all() == std::vector<int64_t>{4, 5, 6});
}

TEST_CASE("the last steps of the generation before may be known to its rank 0 alone") {
  for (const char* cause : {"death", "restart"}) {
    CAPTURE(cause);
    Taken run;
    run.view.current.cause = cause;
    const auto in = [](uint64_t generation, int64_t number) {
      json event = step(number);
      event["generation"] = generation;
      return event;
    };
    run.stream.event(1, in(2, 6));
    for (const int number : {3, 4, 5}) run.stream.event(7, in(1, number));
    run.stream.event(7, in(3, 7));
    run.stream.lead({1, 3});
    run.stream.advance(run.view);
    CHECK(run.stream.holds_any());  // those of generation 3
    const bool anew = run.view.current.cause == "restart";
    CHECK(run.all() == (anew ? std::vector<int64_t>{6} : std::vector<int64_t>{4, 5, 6}));
  }
}

TEST_CASE("what was emitted before a restart from a checkpoint does not count") {
  for (const uint64_t told_in : {1, 2}) {
    Taken run;
    run.view.current.cause = "restart";
    for (const int number : {6, 7, 8}) run.stream.event(1, step(number));
    run.stream.lead({told_in, told_in == 1 ? 20 : 7});
    run.stream.advance(run.view);
    CHECK(run.all() == (told_in == 1 ? std::vector<int64_t>{6, 7, 8} : std::vector<int64_t>{8}));
    CHECK(run.stream.told() == PassedOn{2, 8});
  }
}
