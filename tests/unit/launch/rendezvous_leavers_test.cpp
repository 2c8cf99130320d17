// What is decided about replicas that should be gone, and are not.

#include <doctest/doctest.h>

#include "core/launch/run/rendezvous.h"

namespace adaptdl::launch::testing {
namespace {

// A view that trains, and the time.
struct Scene {
  View view;
  RendezvousOptions options;
  TimePoint now = TimePoint(std::chrono::seconds(1000));

  explicit Scene(int members, std::vector<int> slots = {}) {
    options.max = view.target = members;
    options.slots = std::move(slots);
    view.forming_since = now;
    for (MemberId id = 0; id < static_cast<MemberId>(members); ++id) {
      started(view, id, now,
              options.slots.empty() ? std::vector<int>{} : std::vector{options.slots.at(id)});
      said_hello(view, id, now);
    }
    REQUIRE(next().action == Action::announce);
    for (MemberId id = 0; id < static_cast<MemberId>(members); ++id) {
      said_switched(view, id, 1, now);
    }
    step_finished(view, now);
    REQUIRE(next().action == Action::wait);
  }
  Decision next() {
    const Decision decision = decide(now, view, options);
    apply(view, decision, now);
    return decision;
  }
  void pass(Seconds time) { now = time_after(now, time); }
};

using Ids = std::vector<MemberId>;

}  // namespace

TEST_CASE("rendezvous: a replica that was left out is killed if it does not leave in time") {
  Scene scene(2);
  set_target(scene.view, 1, "scale", scene.options);
  const Decision announced = scene.next();
  REQUIRE(announced.action == Action::announce);
  CHECK(announced.leavers == Ids{1});
  said_connected(scene.view, 0, 2);
  said_switched(scene.view, 0, 2, scene.now);
  const Decision waiting = scene.next();
  CHECK(waiting.action == Action::wait);
  CHECK(waiting.deadline == time_after(scene.now, scene.options.leave_timeout));
  scene.pass(scene.options.leave_timeout);
  const Decision late = scene.next();
  CHECK(late.action == Action::dismiss);
  CHECK(late.dismissed == Ids{1});
  CHECK_FALSE(late.failure);
  CHECK(scene.view.breakdowns == 0);
  CHECK(scene.view.failed_newcomers == 0);
  CHECK(scene.next().action == Action::wait);
  CHECK(scene.view.current.members == Ids{0});
}

TEST_CASE("rendezvous: a replica that said bye is killed if its process stays") {
  Scene scene(2);
  set_target(scene.view, 1, "scale", scene.options);
  scene.next();
  said_switched(scene.view, 0, 2, scene.now);
  said_bye(scene.view, 1, false, scene.now);
  CHECK(scene.next().deadline == time_after(scene.now, scene.options.leave_timeout));
  scene.pass(scene.options.leave_timeout);
  CHECK(scene.next().dismissed == Ids{1});
}

TEST_CASE(
    "rendezvous: the last members that do not hand over in time are killed, and others form") {
  Scene scene(1, {0});
  said_leaving(scene.view, 0, scene.now);
  // There is no slot for a successor beside it.
  CHECK(scene.next().action == Action::hand_over);
  const Decision waiting = scene.next();
  CHECK(waiting.action == Action::wait);
  CHECK(waiting.deadline == time_after(scene.now, scene.options.leave_timeout));
  scene.pass(scene.options.leave_timeout);
  CHECK(scene.next().dismissed == Ids{0});
  CHECK(scene.next().action == Action::restart);
  reaped(scene.view, 0);
  const Decision start = scene.next();
  CHECK(start.action == Action::start);
  CHECK(start.slots == std::vector{0});
  CHECK(scene.view.breakdowns == 0);
}

TEST_CASE("rendezvous: the last members have their time to leave once they have saved") {
  Scene scene(1, {0});
  said_leaving(scene.view, 0, scene.now);
  CHECK(scene.next().action == Action::hand_over);
  const TimePoint begun = scene.now;
  said_saving(scene.view, 0, true, scene.now);
  scene.pass(3 * scene.options.leave_timeout);
  const Decision waiting = scene.next();
  CHECK(waiting.action == Action::wait);
  CHECK(waiting.deadline == time_after(begun, kLongestSave));
  SUBCASE("it has") {
    said_saving(scene.view, 0, false, scene.now);
    CHECK(scene.next().deadline == time_after(scene.now, scene.options.leave_timeout));
    scene.pass(scene.options.leave_timeout);
  }
  SUBCASE("its process is stopped") {
    scene.view.find(0)->stopped = true;
  }
  SUBCASE("its disk hangs") {
    scene.pass(kLongestSave);
  }
  CHECK(scene.next().dismissed == Ids{0});
  CHECK_FALSE(scene.view.saving());
}

TEST_CASE("rendezvous: a death at the end matters only to those that lost their links by it") {
  Scene scene(3);
  said_bye(scene.view, 2, true, scene.now);
  died(scene.view, 0, scene.now);
  reaped(scene.view, 0);
  CHECK(scene.next().action == Action::wait);  // the last one may have finished, too
  CHECK(scene.view.announced.empty());
  said_lost(scene.view, 1, 1, false, scene.now);
  const Decision goes_on = scene.next();
  CHECK(goes_on.action == Action::announce);
  CHECK(goes_on.generation.members == Ids{1});
  CHECK(goes_on.generation.immediate);
}

TEST_CASE("rendezvous: if nobody is left who trains, the run begins again") {
  Scene scene(2);
  for (const MemberId id : {0, 1}) said_bye(scene.view, id, false, scene.now);
  CHECK(scene.next().action == Action::restart);
  CHECK(scene.view.current.number == 0);
  CHECK(scene.view.breakdowns == 1);  // leaving without a reason must not go on for ever
}

}  // namespace adaptdl::launch::testing
