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

json in(uint64_t generation, int64_t number) {
  json event = step(number);
  event["generation"] = generation;
  return event;
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

  // Another generation, after a death, that goes on after that step.
  void begin(uint64_t number, int64_t after, MemberId rank_0 = 1) {
    view.find(rank_0)->switched = number;
    stream.switched(number, after);
    view.current = {.number = number, .members = {rank_0}, .immediate = true, .cause = "death"};
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
    run.view.members.push_back({.id = 7, .state = MemberState::active, .switched = 1});
    run.view.current.cause = cause;
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

TEST_CASE("what was emitted before a restart does not count in the generations after it either") {
  for (const bool leads_before : {true, false}) {
    CAPTURE(leads_before);
    Taken run;
    run.stream.event(9, in(1, 21));  // which nobody had passed on
    const PassedOn told{1, 20};
    if (leads_before) {  // the restart, in which no step is finished
      run.view.current.cause = "restart";
      run.stream.lead(told);
      run.stream.advance(run.view);
      run.stream.event(1, {{"event", "resume"}, {"step", 5}});
    }
    run.begin(3, 5);
    if (!leads_before) run.stream.lead(told);
    run.stream.advance(run.view);
    for (const int number : {6, 7}) run.stream.event(1, in(3, number));
    CHECK(run.all() == std::vector<int64_t>{6, 7});
  }
}

TEST_CASE("steps come out that only another one than the lost rank 0 still knows") {
  Taken run;
  run.stream.lead({});
  run.stream.advance(run.view);
  run.view.members[0].state = MemberState::gone;
  run.view.members.push_back({.id = 2, .state = MemberState::active, .switched = 3});
  for (const int number : {6, 7}) run.stream.event(2, in(2, number));
  run.begin(3, 7, 2);
  run.stream.event(2, in(3, 8));
  run.stream.advance(run.view);
  CHECK(run.all() == std::vector<int64_t>{6, 7, 8});
}

TEST_CASE("what the gone have said besides holds nobody up") {
  Taken run;
  run.stream.event(7, {{"event", "epoch"}, {"epoch", 1}});
  run.stream.lead({});
  run.stream.advance(run.view);
  CHECK_FALSE(run.stream.holds_any());
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
