#include "core/launch/command/command_state.h"

#include <csignal>
#include <doctest/doctest.h>
#include <random>

#include "tests/unit/launch/histories.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using adaptdl::launch::testing::environment_number;

namespace {

const TimePoint kStart = TimePoint(std::chrono::hours(1));
const ExitStatus kDone{false, 0}, kRescheduled{false, 143}, kTerminated{true, SIGTERM},
    kKilled{true, SIGKILL}, kCrashed{false, 1};

// Plays the shell: carries out what is decided, one call after another.
struct Play {
  CommandView view;
  CommandRules rules;
  TimePoint now = kStart;

  CommandAction next() {
    const CommandDecision decision = decide(now, view, rules);
    CHECK_FALSE(decision.reason.empty());
    if (decision.action != CommandAction::wait) apply(view, decision, now);
    return decision.action;
  }
  void after(double seconds) {
    now += std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
  }
  void exit(int rank, const ExitStatus& status) { exited(view, rank, status, now); }
  void all_exit(const ExitStatus& status, bool progress = false) {
    for (int rank = 0; rank < static_cast<int>(view.replicas.size()); ++rank) exit(rank, status);
    generation_ended(view, progress, now, rules);
  }
  void fail_once() {
    REQUIRE(next() == CommandAction::start);
    all_exit(kCrashed);
    now = std::max(now, view.retry_at);
  }
};

}  // namespace

TEST_CASE("command: what Ctrl-C makes of a program is no failure of a run that stops") {
  for (const ExitStatus& status : {ExitStatus{true, SIGINT}, ExitStatus{false, 130}}) {
    for (const bool stops : {true, false}) {
      Play play;
      REQUIRE(play.next() == CommandAction::start);
      if (stops) play.view.stop = CommandStop::checkpoint;
      if (!stops) play.view.target = 2;
      CHECK(play.next() == CommandAction::terminate);
      play.exit(0, status);
      CHECK(play.view.failed_at.has_value() != stops);
    }
  }
}

TEST_CASE("command: all exit 0 is the end, whenever each does") {
  Play play;
  play.view.target = 2;
  CHECK(play.next() == CommandAction::start);
  CHECK(play.view.replicas.size() == 2);
  CHECK(play.next() == CommandAction::wait);
  play.exit(1, kDone);
  play.after(1000);
  CHECK(play.next() == CommandAction::wait);
  play.view.target = 1;  // too late: it finishes as it is
  CHECK(play.next() == CommandAction::wait);
  play.exit(0, kDone);
  generation_ended(play.view, false, play.now, play.rules);
  CHECK(play.next() == CommandAction::finish);
}

TEST_CASE("command: another number of replicas goes through SIGTERM and another start") {
  for (const ExitStatus& status : {kRescheduled, kTerminated, kDone}) {
    Play play;
    play.view.target = 2;
    play.next();
    play.view.target = 3;
    CHECK(play.next() == CommandAction::terminate);
    play.after(10);
    CHECK(play.next() == CommandAction::wait);
    play.all_exit(status);
    CHECK(play.view.failures == 0);
    CHECK(play.next() == (status.success() ? CommandAction::finish : CommandAction::start));
  }
}

TEST_CASE("command: who does not stop in time is killed, which is no failure") {
  Play play;
  play.next();
  play.view.target = 2;
  CHECK(play.next() == CommandAction::terminate);
  play.after(29.9);
  CHECK(play.next() == CommandAction::wait);
  play.after(0.2);
  CHECK(play.next() == CommandAction::kill);
  CHECK(play.next() == CommandAction::wait);
  play.all_exit(kKilled);
  CHECK(play.view.failures == 0);
  CHECK(play.next() == CommandAction::start);
}

TEST_CASE("command: slots that are taken away end a generation; those that are added do not") {
  Play play;
  play.rules.slots_per_replica = 2;
  play.view.slots = {0, 1, 4, 5};
  play.view.target = 1;
  CHECK(play.next() == CommandAction::start);
  CHECK(play.view.held == std::vector{0, 1});
  play.view.slots = {1, 0, 8, 9};
  CHECK(play.next() == CommandAction::wait);
  play.view.slots = {1, 2};
  CHECK(play.next() == CommandAction::terminate);
  play.all_exit(kRescheduled);
  CHECK(play.next() == CommandAction::start);
  CHECK(play.view.held == std::vector{1, 2});
}

TEST_CASE("command: hosts that come within a moment share one start") {
  Play play;
  play.view.slots = {0, 1};
  const auto comes = [&](int slots, bool all = false) {
    play.view.slots.push_back(play.view.slots.back() + 1);
    play.view.target = slots;
    host_came(play.view, all, play.now);
  };
  comes(3);  // before the first start, too
  CHECK(play.next() == CommandAction::wait);
  play.after(2.1);
  CHECK(play.next() == CommandAction::start);
  CHECK(play.view.replicas.size() == 3);
  play.after(60);
  for (int i = 0; i < 6; ++i) {  // one every 1.9 s: not for ever
    comes(4 + i);
    CHECK(play.next() == CommandAction::wait);
    play.after(1.9);
  }
  CHECK(play.next() == CommandAction::terminate);
  play.all_exit(kRescheduled);
  CHECK(play.next() == CommandAction::start);
  play.after(60);
  comes(10, true);  // no other one will come
  CHECK(play.next() == CommandAction::terminate);
}

TEST_CASE("command: a host that comes holds up neither a loss nor an end") {
  Play play;
  play.view.slots = {0, 1, 2};
  play.view.target = 3;
  play.next();
  play.after(60);
  host_came(play.view, false, play.now);
  play.view.slots = {0, 1};
  play.view.target = 2;
  CHECK(play.next() == CommandAction::terminate);
  play.all_exit(kRescheduled);
  host_came(play.view, false, play.now);
  play.view.stop = CommandStop::checkpoint;
  CHECK(play.next() == CommandAction::stopped);
}

TEST_CASE("command: one that was killed ends the others at once") {
  Play play;
  play.view.target = 2;
  play.next();
  play.exit(1, kKilled);
  CHECK(play.next() == CommandAction::terminate);
}

TEST_CASE("command: one failure ends the others, and costs a longer wait each time") {
  Play play;
  play.view.target = 2;
  play.next();
  play.exit(1, kCrashed);
  CHECK(play.next() == CommandAction::wait);  // the others may fail, too, and say why
  play.after(0.1);
  CHECK(play.next() == CommandAction::terminate);
  play.after(5.1);
  CHECK(play.next() == CommandAction::kill);
  play.exit(0, kKilled);
  generation_ended(play.view, false, play.now, play.rules);
  CHECK(play.view.failures == 1);
  CHECK(play.view.retry_at <= play.now);  // the first restart does not wait
  play.next();
  play.all_exit(kCrashed);
  CHECK(play.view.failures == 2);
  CHECK(play.next() == CommandAction::wait);
  play.after(1.1);
  play.fail_once();
  CHECK(play.view.failures == 3);
  CHECK(play.next() == CommandAction::start);
  play.all_exit(kCrashed);
  CHECK(play.next() == CommandAction::give_up);
}

TEST_CASE("command: a checkpoint, or a long life, forgives what was before") {
  for (const bool checkpoint : {true, false}) {
    Play play;
    for (int i = 0; i < 3; ++i) play.fail_once();
    play.next();
    if (!checkpoint) play.after(601);
    play.all_exit(kCrashed, checkpoint);
    CHECK(play.view.failures == 1);
    CHECK(play.view.retry_at <= play.now);
  }
  Play play;
  play.rules.max_failures = 1000;
  for (int i = 0; i < 20; ++i) play.fail_once();
  play.next();
  play.all_exit(kCrashed);
  CHECK(seconds_between(play.now, play.view.retry_at) == doctest::Approx(60));
}

TEST_CASE("command: a long life forgives as a checkpoint does, but not by torchrun's rule") {
  Play play;
  play.next();
  CHECK(forgives(play.view, true, play.now, play.rules));
  CHECK_FALSE(forgives(play.view, false, play.now, play.rules));
  play.after(601);
  CHECK(forgives(play.view, false, play.now, play.rules));
  play.rules.in_row = false;
  CHECK_FALSE(forgives(play.view, true, play.now, play.rules));
}

TEST_CASE("command: what lived longer than the pause starts again at once") {
  Play play;
  for (int i = 0; i < 3; ++i) play.fail_once();
  play.next();
  play.after(3);
  play.all_exit(kCrashed);  // the pause is 4 s from its start
  CHECK(play.view.failures == 4);
  CHECK(seconds_between(play.now, play.view.retry_at) == doctest::Approx(1));
}

TEST_CASE("command: failures of the whole run are counted if torchrun's rule is asked for") {
  Play play;
  play.rules.in_row = false;
  play.rules.max_failures = 2;
  play.fail_once();
  play.next();
  play.after(601);
  play.all_exit(kCrashed, true);
  CHECK(play.view.failures == 2);
  play.after(1.1);
  play.next();
  play.all_exit(kRescheduled);  // a wish of its own, without a checkpoint
  CHECK(play.next() == CommandAction::give_up);
}

TEST_CASE("command: 143 unasked is a wish if it left a checkpoint, else a failure") {
  for (const bool checkpoint : {true, false}) {
    Play play;
    play.view.target = 2;
    play.next();
    play.exit(1, kRescheduled);
    play.after(20);  // rank 0 may take its time to write
    CHECK(play.next() == CommandAction::wait);
    play.exit(0, kRescheduled);
    generation_ended(play.view, checkpoint, play.now, play.rules);
    CHECK(play.view.failures == (checkpoint ? 0 : 1));
  }
}

TEST_CASE("command: what finds no room on the disk is tried again, which is no failure") {
  Play play;
  for (int i = 0; i < 5; ++i) {
    CHECK(play.next() == CommandAction::start);
    start_failed(play.view, play.now, play.rules);
    const CommandDecision decision = decide(play.now, play.view, play.rules);
    CHECK(decision.action == CommandAction::wait);
    CHECK(decision.reason == "waiting for room on the disk");
    REQUIRE(decision.deadline);
    play.now = *decision.deadline;
  }
  CHECK(play.view.failures == 0);
  play.view.stop = CommandStop::checkpoint;
  CHECK(play.next() == CommandAction::stopped);
}

TEST_CASE("command: a stop ends it, also between two generations and while it fails") {
  Play play;
  play.next();
  play.view.stop = CommandStop::checkpoint;
  CHECK(play.next() == CommandAction::terminate);
  play.view.stop = CommandStop::now;
  CHECK(play.next() == CommandAction::kill);
  play.all_exit(kKilled);
  CHECK(play.next() == CommandAction::stopped);

  Play waiting;
  waiting.view.supervisor_up = false;
  CHECK(waiting.next() == CommandAction::wait);
  waiting.view.stop = CommandStop::checkpoint;
  CHECK(waiting.next() == CommandAction::stopped);
}

TEST_CASE("command: who ends with 0 because it was told to stop has not finished") {
  Play play;
  play.next();
  play.view.stop = CommandStop::checkpoint;
  CHECK(play.next() == CommandAction::terminate);
  play.all_exit(kDone);
  CHECK(play.next() == CommandAction::stopped);
}

// Whatever happens, nothing starts while something lives, and every generation comes to an end.
// ADAPTDL_HISTORIES sets how many are played.
TEST_CASE("command: generated histories") {
  const uint64_t histories = environment_number("ADAPTDL_HISTORIES", 2000);
  uint64_t finished = 0, gave_up = 0;
  for (uint64_t seed = 1; seed <= histories; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    Play play;
    play.view.target = 1 + draw(3);
    play.view.slots = {0, 1, 2, 3, 4, 5};
    const bool deaf = draw(3) == 0;  // does not listen to SIGTERM
    bool over = false;
    for (int tick = 0; tick < 3000 && !over; ++tick) {
      play.after(0.1);
      if (tick < 1000 && draw(100) == 0) play.view.target = 1 + draw(3);
      if (tick < 1000 && draw(200) == 0) play.view.slots = {draw(3), 7, 8, 9};
      for (int rank = 0; rank < static_cast<int>(play.view.replicas.size()); ++rank) {
        if (!play.view.replicas[static_cast<size_t>(rank)].alive) continue;
        if (play.view.killed) {
          play.exit(rank, kKilled);
        } else if (play.view.kill_at && !deaf && draw(5) == 0) {
          play.exit(rank, draw(10) == 0 ? kCrashed : kRescheduled);
        } else if (draw(300) == 0) {
          play.exit(rank, draw(2) == 0 ? kCrashed : draw(1) == 0 ? kDone : kKilled);
        }
      }
      if (!play.view.replicas.empty() && play.view.living() == 0) {
        generation_ended(play.view, draw(1) == 0, play.now, play.rules);
      }
      for (int rounds = 0;; ++rounds) {
        REQUIRE(rounds < 10);
        const bool empty = play.view.replicas.empty();
        const CommandAction action = play.next();
        if (action == CommandAction::start) REQUIRE(empty);
        over = action == CommandAction::finish || action == CommandAction::give_up;
        finished += action == CommandAction::finish;
        gave_up += action == CommandAction::give_up;
        if (over || action == CommandAction::wait) break;
      }
    }
  }
  CHECK(finished > histories / 4);
  CHECK(gave_up > histories / 400);
}
