#include "core/launch/run/rendezvous.h"

#include <doctest/doctest.h>
#include <random>

#include "tests/unit/launch/histories.h"
#include "tests/unit/launch/world.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using adaptdl::launch::testing::Accidents;
using adaptdl::launch::testing::environment_number;
using adaptdl::launch::testing::World;

TEST_CASE("rendezvous: a start, growth, shrinking") {
  World world(1, 1, 4, 2, 0);
  world.play(200, {});
  CHECK(world.settled());
  CHECK(world.view().current.number == 1);
  CHECK(world.view().current.immediate);
  CHECK(world.view().current.cause == "start");
  CHECK(world.steps() > 10);
  CHECK(world.complaints().empty());
}

TEST_CASE("rendezvous: the last member that leaves hands over through a checkpoint") {
  for (const int slots : {0, 1}) {
    World world(7, 1, 1, 1, slots);
    world.play(200, {});
    REQUIRE(world.settled());
    const int64_t before = world.steps();
    world.signal_leave(world.view().current.members.front());
    world.play(500, {});
    CHECK(world.settled());
    CHECK(world.steps() > before);
    CHECK(world.restarts() == 1);
    CHECK(world.view().current.members.front() != 0);
    for (const auto& complaint : world.complaints()) FAIL_CHECK(complaint);
  }
}

TEST_CASE("rendezvous: slots that are taken away are left, live, and their state goes along") {
  World world(3, 1, 2, 2, 2);
  world.play(200, {});
  REQUIRE(world.settled());
  CHECK(world.view().find(0)->slots == std::vector{0});
  world.set_slots({1, 2});
  world.play(200, {});
  CHECK(world.settled());
  CHECK(world.view().find(0) == nullptr);
  CHECK(world.view().find(1) != nullptr);  // it had one that stays
  world.set_slots({3, 4});
  world.play(200, {});
  CHECK(world.settled());
  CHECK(world.view().find(1) == nullptr);
  world.set_slots({0});
  world.play(200, {});
  CHECK(world.view().current.members.size() == 1);
  CHECK(world.view().members.size() == 1);
  CHECK(world.restarts() == 0);
  for (const auto& complaint : world.complaints()) FAIL_CHECK(complaint);
}

TEST_CASE("rendezvous: a spare is started behind the members, and joins when one dies") {
  TimePoint now = TimePoint() + std::chrono::hours(1);
  RendezvousOptions options{.min = 2, .max = 2, .spares = 1};
  View view;
  view.target = 2;
  view.forming_since = now;
  MemberId next = 0;
  const auto decides = [&] {
    const Decision decision = decide(now, view, options);
    for (int i = 0; i < decision.count; ++i) started(view, next++, now);
    apply(view, decision, now);
    return decision;
  };
  const auto connect = [&](const Decision& decision) {
    REQUIRE(decision.action == Action::announce);
    const Generation generation = decision.generation;
    for (const MemberId id : generation.members) said_switched(view, id, generation.number, now);
    CHECK_FALSE(view.pending);
    return generation;
  };
  CHECK(decides().count == 2);
  for (const MemberId id : {0, 1}) said_hello(view, id, now);
  connect(decides());
  Decision decision = decides();
  CHECK(decision.action == Action::start);
  CHECK(decision.count == 1);
  decision = decides();
  CHECK(decision.action == Action::wait);
  CHECK(decision.deadline);  // for its start
  said_hello(view, 2, now);
  decision = decides();
  CHECK(decision.action == Action::wait);
  CHECK_FALSE(decision.deadline);
  CHECK(decision.reason == "all requested replicas are training; 1 of 1 spares are ready");
  CHECK(view.is_spare(*view.find(2)));
  now += std::chrono::minutes(10);

  SUBCASE("a member dies: the other one goes on, the spare joins, and the next one is started") {
    died(view, 0, now);
    reaped(view, 0);
    Generation generation = connect(decides());
    CHECK(generation.immediate);
    CHECK(generation.members == std::vector<MemberId>{1});
    generation = connect(decides());
    CHECK_FALSE(generation.immediate);
    CHECK(generation.members == std::vector<MemberId>{1, 2});
    CHECK(generation.cause == "replacement");
    decision = decides();
    CHECK(decision.action == Action::start);
    CHECK(decision.count == 1);
  }
  SUBCASE("a member leaves: one generation without it and with the spare") {
    said_leaving(view, 1, now);
    decision = decides();
    REQUIRE(decision.action == Action::announce);
    CHECK(decision.generation.members == std::vector<MemberId>{0, 2});
    CHECK(decision.leavers == std::vector<MemberId>{1});
  }
  SUBCASE("all members die: the spare is among those that start anew") {
    for (const MemberId id : {0, 1}) {
      died(view, id, now);
      reaped(view, id);
    }
    CHECK(decides().action == Action::restart);
    CHECK(decides().count == 1);
    said_hello(view, 3, now);
    CHECK(connect(decides()).members == std::vector<MemberId>{2, 3});
  }
  SUBCASE("the run wants more: the spare joins, and the next one is started") {
    options.max = 3;
    set_target(view, 3, "scale", options);
    CHECK(connect(decides()).members == std::vector<MemberId>{0, 1, 2});
    CHECK(decides().action == Action::start);
  }
  SUBCASE("spares that die long after they have started are replaced for ever") {
    for (MemberId spare = 2; spare < 20; ++spare) {
      died(view, spare, now);
      reaped(view, spare);
      CHECK(view.failed_newcomers == 1);
      CHECK(decides().action == Action::start);
      said_hello(view, spare + 1, now);
      CHECK(decides().action == Action::wait);
      now += std::chrono::minutes(2);
    }
  }
  SUBCASE("new ones fail too often: one that has been ready for long stays, and joins") {
    options.spares = 2;
    for (MemberId spare = 3; view.failed_newcomers <= options.max_restarts; ++spare) {
      now = std::max(now, view.retry_at);
      REQUIRE(decides().action == Action::start);
      died(view, spare, now);
      reaped(view, spare);
    }
    CHECK(decides().action == Action::wait);
    CHECK(view.is_spare(*view.find(2)));
    died(view, 0, now);
    reaped(view, 0);
    CHECK(connect(decides()).members == std::vector<MemberId>{1});
    decision = decides();
    CHECK(decision.action == Action::wait);
    CHECK(decision.deadline == view.retry_at);
    now = view.retry_at;
    CHECK(connect(decides()).members == std::vector<MemberId>{1, 2});
  }
  SUBCASE("new ones fail too often: one that has just become ready goes") {
    options.spares = 2;
    now -= std::chrono::minutes(10);
    view.failed_newcomers = options.max_restarts + 1;
    decision = decides();
    CHECK(decision.action == Action::dismiss);
    CHECK(decision.dismissed == std::vector<MemberId>{2});
  }
  SUBCASE("spares that die at once are given up, and the members go on") {
    MemberId spare = 2;
    now -= std::chrono::minutes(10);
    for (; spare < 2 + 4; ++spare) {
      died(view, spare, now);
      reaped(view, spare);
      now = std::max(now, view.retry_at);
      if (view.failed_newcomers > options.max_restarts) break;
      CHECK(decides().action == Action::start);
      said_hello(view, spare + 1, now);
    }
    CHECK(view.failed_newcomers == 4);
    CHECK(decides().action == Action::wait);
  }
}

// Replicas 0, 1 and 2 are the first generation; 0 and 2 have said so.
struct Late {
  TimePoint now = TimePoint() + std::chrono::hours(1);
  RendezvousOptions options{.min = 1, .max = 3};
  View view;

  Late() {
    view.target = 3;
    view.forming_since = now;
    for (const MemberId id : {0, 1, 2}) {
      started(view, id, now);
      said_hello(view, id, now);
    }
    apply(view, decide(now, view, options), now);
    REQUIRE(view.pending == 1);
    for (const MemberId id : {0, 2}) said_switched(view, id, 1, now);
  }
  void die(MemberId id) {
    died(view, id, now);
    reaped(view, id);
  }
  Decision next(double seconds) {
    now += std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
    return decide(now, view, options);
  }
};

TEST_CASE("rendezvous: after a death, members that have not said that they train are heard first") {
  Late late;
  late.die(0);
  CHECK(late.next(0).action == Action::wait);
  SUBCASE("it says so, and goes on with the others") {
    said_switched(late.view, 1, 1, late.now);
    const Decision decision = late.next(0.1);
    CHECK(decision.action == Action::announce);
    CHECK(decision.generation.members == std::vector<MemberId>{1, 2});
  }
  SUBCASE("it does not, and would wait where nobody comes any more") {
    Decision decision = late.next(0.6);
    CHECK(decision.action == Action::dismiss);
    CHECK(decision.dismissed == std::vector<MemberId>{1});
    CHECK_FALSE(decision.failure);
    apply(late.view, decision, late.now);
    decision = late.next(0);
    CHECK(decision.action == Action::announce);
    CHECK(decision.generation.members == std::vector<MemberId>{2});
  }
  SUBCASE("nobody else is left: they start again, it as well") {
    late.die(2);
    CHECK(late.next(0.1).action == Action::wait);
    const Decision decision = late.next(0.5);
    CHECK(decision.action == Action::restart);
    CHECK(late.view.find(1)->state == MemberState::ready);
  }
}

namespace {

// Replica 0 trains alone; the run wants two.
struct Growing {
  TimePoint now = TimePoint() + std::chrono::hours(1);
  RendezvousOptions options{.min = 1, .max = 3, .max_restarts = 2};
  View view;

  explicit Growing(int target = 2) {
    view.target = 1;
    view.forming_since = now;
    next();
    started(view, 0, now);
    said_hello(view, 0, now);
    next();
    said_switched(view, 0, 1, now);
    set_target(view, target, "scale", options);
  }
  void after(double seconds) {
    now += std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
  }
  Action next() {
    const Decision decision = decide(now, view, options);
    apply(view, decision, now);
    return decision.action;
  }
  // Replica `id` starts and trains with the others.
  void join(MemberId id) {
    now = std::max(now, view.retry_at);
    REQUIRE(next() == Action::start);
    after(0.1);
    started(view, id, now);
    after(0.1);
    said_hello(view, id, now);
    REQUIRE(next() == Action::announce);
    const uint64_t number = *view.pending;
    const std::vector<MemberId> members = view.generation(number)->members;
    for (const MemberId member : members) said_switched(view, member, number, now);
    REQUIRE(view.current.holds(id));
    REQUIRE_FALSE(view.pending);
  }
  // The others go on without it.
  void die(MemberId id) {
    died(view, id, now);
    reaped(view, id);
    REQUIRE(next() == Action::announce);
    said_switched(view, 0, *view.pending, now);
  }
  void steps(int count, double each) {
    for (int i = 0; i < count; ++i) {
      after(each);
      step_finished(view, now);
    }
  }
};

}  // namespace

TEST_CASE("rendezvous: a replica that dies soon after it has joined is a failed newcomer") {
  Growing run;
  SUBCASE("within a few steps") {
    for (MemberId id = 1; id <= 3; ++id) {
      run.join(id);
      run.steps(kTrialSteps - 1, 60);
      run.die(id);
      run.steps(10, 60);
      CHECK(run.view.failed_newcomers == static_cast<int>(id));
    }
    CHECK(run.next() == Action::wait);
    CHECK(decide(run.now, run.view, run.options).reason.find("3 new replicas in a row failed") ==
          0);
    run.steps(1000, 60);
    CHECK(run.next() == Action::wait);
    CHECK(run.view.current.members == std::vector<MemberId>{0});
  }
  SUBCASE("within a few seconds") {
    for (MemberId id = 1; id <= 3; ++id) {
      run.join(id);
      run.steps(400, 0.01);
      run.die(id);
      if (id > 1) CHECK(run.view.retry_at > run.now);
      run.steps(10, 0.01);
    }
    CHECK(run.view.failed_newcomers == 3);
    run.after(1000);
    CHECK(run.next() == Action::wait);
  }
  SUBCASE("but not once it has stayed") {
    for (MemberId id = 1; id <= 10; ++id) {
      run.join(id);
      run.steps(10, 1);
      run.die(id);
      CHECK(run.view.failed_newcomers == 0);
      CHECK(run.view.breakdowns == 1);
      run.steps(1, 1);
    }
  }
  SUBCASE("one that stays ends the row") {
    for (MemberId id = 1; id <= 2; ++id) {
      run.join(id);
      run.die(id);
    }
    CHECK(run.view.failed_newcomers == 2);
    run.join(3);
    CHECK(run.view.failed_newcomers == 2);
    run.steps(10, 1);
    CHECK(run.view.failed_newcomers == 0);
  }
  CHECK(run.view.breakdowns <= run.options.max_restarts);
}

TEST_CASE("rendezvous: newcomers that die together are one failure") {
  Growing run(3);
  REQUIRE(run.next() == Action::start);
  for (const MemberId id : {1, 2}) started(run.view, id, run.now);
  run.after(1);
  for (const MemberId id : {1, 2}) {
    died(run.view, id, run.now);
    reaped(run.view, id);
    run.after(0.1);
  }
  CHECK(run.view.failed_newcomers == 1);
  started(run.view, 3, run.now);
  run.after(0.1);
  died(run.view, 3, run.now);
  CHECK(run.view.failed_newcomers == 2);
}

TEST_CASE("rendezvous: nothing is decided before it is known how a replica ended, but soon after") {
  Late late;
  died(late.view, 0, late.now);
  said_switched(late.view, 1, 1, late.now);
  const Decision waits = late.next(0.1);
  CHECK(waits.action == Action::wait);
  CHECK(waits.reason == "waiting to learn how replica 0 ended");
  CHECK(*waits.deadline > late.now);
  SUBCASE("it is known") {
    reaped(late.view, 0);
  }
  SUBCASE("it does not end") {
    late.next(0.45);
  }
  const Decision decision = late.next(0);
  CHECK(decision.action == Action::announce);
  CHECK(decision.generation.members == std::vector<MemberId>{1, 2});
}

TEST_CASE("rendezvous: links that break again and again end a run only after minutes") {
  Late late;
  said_switched(late.view, 1, 1, late.now);
  late.next(0);
  const auto try_again = [&] {
    said_lost(late.view, 0, late.view.last_generation, false, late.now);
    Decision decision = late.next(0);
    while (decision.action == Action::wait) {
      REQUIRE(decision.deadline);
      decision = late.next(seconds_between(late.now, *decision.deadline) + 1e-3);
    }
    if (decision.action != Action::announce) return decision;
    CHECK(decision.generation.cause == "links");
    apply(late.view, decision, late.now);
    for (const MemberId id : {0, 1, 2}) {
      said_switched(late.view, id, decision.generation.number, late.now);
    }
    return decision;
  };
  for (int i = 0; i < 5; ++i) CHECK(try_again().action == Action::announce);
  step_finished(late.view, late.now);
  late.next(1000);
  int tries = 0;
  const TimePoint begun = late.now;
  Decision decision = try_again();
  for (; decision.action == Action::announce; decision = try_again()) ++tries;
  CHECK(decision.action == Action::give_up);
  CHECK(decision.reason.starts_with("links between replicas broke"));
  CHECK(seconds_between(begun, late.now) >= 300);
  CHECK(tries > 30);
  CHECK(tries < 60);
}

TEST_CASE("rendezvous: a death that is excused does not count, nor do those at the same time") {
  SUBCASE("members that train") {
    Late late;
    late.options.max_restarts = 0;
    said_switched(late.view, 1, 1, late.now);
    late.next(1);
    for (const MemberId id : {0, 1}) died(late.view, id, late.now);
    CHECK(late.view.breakdowns == 1);
    excused(late.view, 1, late.now);  // it was not the one that counted
    CHECK(late.view.breakdowns == 1);
    excused(late.view, 0, late.now);
    excused(late.view, 0, late.now);
    CHECK(late.view.breakdowns == 0);
    for (const MemberId id : {0, 1}) reaped(late.view, id);
    late.die(2);
    CHECK(late.view.breakdowns == 0);
    CHECK(late.next(0.1).action == Action::restart);
  }
  SUBCASE("newcomers") {
    Growing run;
    for (MemberId id = 1; id < 20; ++id) {
      REQUIRE(run.next() == Action::start);
      run.after(0.1);
      started(run.view, id, run.now);
      run.after(0.1);
      died(run.view, id, run.now);
      CHECK(run.view.failed_newcomers == 1);
      excused(run.view, id, run.now);
      reaped(run.view, id);
      CHECK(run.view.failed_newcomers == 0);
    }
  }
}

// Thousands of histories. ADAPTDL_SEED plays one again; ADAPTDL_HISTORIES sets how many.
TEST_CASE("rendezvous: generated histories") {
  const uint64_t only = environment_number("ADAPTDL_SEED", 0);
  const uint64_t histories = only != 0 ? 1 : environment_number("ADAPTDL_HISTORIES", 3000);
  int settled = 0, gave_up = 0, restarts = 0;
  for (uint64_t i = 0; i < histories; ++i) {
    const uint64_t seed = only != 0 ? only : 1000 + i;
    std::mt19937_64 random(seed);
    auto number = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const int max = number(1, 5), min = number(1, max), target = number(min, max);
    const int slots = number(0, 3) == 0 ? max : 0, each = number(1, 2);
    auto maybe = [&](double rate) { return number(0, 2) == 0 ? 0.0 : rate * number(1, 3); };
    Accidents accidents;
    accidents.kill = maybe(0.002);
    accidents.stop = maybe(0.002);
    accidents.leave = maybe(0.001);
    accidents.scale = maybe(0.003);
    accidents.bad_start = maybe(0.1);
    accidents.stale = maybe(0.02);
    accidents.break_links = maybe(0.001);
    if (slots > 0) accidents.move = maybe(0.002);
    const int spares = number(0, 2) == 0 ? number(1, 2) : 0;
    World world(seed, min, max, target, slots > 0 ? slots + number(0, 1) : 0, each, spares);
    world.play(number(100, 1500), accidents);
    world.end_accidents();
    world.play(3000, {});  // 30 s of calm
    restarts += world.restarts();
    for (const auto& complaint : world.complaints()) {
      FAIL_CHECK("seed ", seed, ": ", complaint);
    }
    if (world.gave_up()) {
      ++gave_up;
    } else if (world.settled()) {
      ++settled;
    } else if (world.view().failed_newcomers <= 3) {
      // Failing newcomers may have been given up: then, and only then, fewer than wanted go on.
      FAIL_CHECK("seed ", seed, ": does not settle: ", world.describe());
    }
    if (!world.complaints().empty()) break;
  }
  MESSAGE(histories, " histories: ", settled, " settled, ", gave_up, " gave up, ", restarts,
          " restarts from a checkpoint");
  if (only == 0) CHECK(settled > static_cast<int>(histories) / 2);
}
