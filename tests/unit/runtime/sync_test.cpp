// plan_sync(): what becomes of a step when a generation breaks in the middle of it.

#include "runtime/session/sync.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

using adaptdl::plan_sync;
using adaptdl::StepMark;
using adaptdl::SyncPlan;

namespace {

constexpr StepMark kNone{};
StepMark mark(int64_t applied, int64_t prepared) {
  return {true, applied, prepared};
}

StepMark seeing(StepMark mark, int64_t samples, uint64_t content) {
  mark.data.train = {samples, content};
  return mark;
}

adaptdl::data::Data synthetic(int64_t samples) {
  adaptdl::DataSpec spec;
  spec.train.resize(1);
  spec.train[0].format = adaptdl::DataSource::Format::synthetic;
  spec.train[0].synthetic_samples = samples;
  spec.train[0].shape = {2};
  return adaptdl::data::open_data(spec, "");
}

}  // namespace

TEST_CASE("nobody has state: nobody is the root, all receive") {
  for (int rank = 0; rank < 3; ++rank) {
    const SyncPlan plan = plan_sync({kNone, kNone, kNone}, rank);
    CHECK(plan.root == -1);
    CHECK(plan.finished == 0);
    CHECK(plan.receive);
  }
}

TEST_CASE("a newcomer receives from the lowest rank with state") {
  const std::vector<StepMark> marks = {kNone, mark(7, 7), mark(7, 7)};
  for (int rank = 0; rank < 3; ++rank) {
    const SyncPlan plan = plan_sync(marks, rank);
    CHECK(plan.root == 1);
    CHECK(plan.finished == 7);
    CHECK(plan.transfer);
    CHECK(plan.receive == (rank == 0));
  }
}

TEST_CASE("survivors need no transfer") {
  const SyncPlan plan = plan_sync({mark(7, 7), mark(7, 7)}, 1);
  CHECK(plan.root == 0);
  CHECK_FALSE(plan.transfer);
  CHECK_FALSE(plan.receive);
}

TEST_CASE("a suspect receives, and is the root only if nobody else has the state") {
  StepMark suspect = mark(7, 7);
  suspect.suspect = true;
  for (int rank = 0; rank < 3; ++rank) {
    const SyncPlan plan = plan_sync({suspect, mark(7, 7), kNone}, rank);
    CHECK(plan.root == 1);
    CHECK(plan.transfer);
    CHECK(plan.finished == 7);
    CHECK(plan.receive == (rank != 1));
  }
  const SyncPlan only = plan_sync({kNone, suspect}, 1);
  CHECK(only.root == 1);
  CHECK_FALSE(only.receive);
}

TEST_CASE("a step that somebody applied is applied by all") {
  // Rank 1 saw the commit, rank 0 only prepared the step.
  const SyncPlan plan = plan_sync({mark(7, 8), mark(8, 8)}, 0);
  CHECK(plan.finished == 8);
  CHECK_FALSE(plan.transfer);
}

TEST_CASE("a step that all prepared is applied: a dead one may have announced it") {
  CHECK(plan_sync({mark(7, 8), mark(7, 8)}, 0).finished == 8);
}

TEST_CASE("a step that one has not prepared is redone by all") {
  const SyncPlan plan = plan_sync({mark(7, 8), mark(7, 7), mark(7, 8)}, 0);
  CHECK(plan.finished == 7);
  CHECK_FALSE(plan.transfer);
}

TEST_CASE("who is ahead of what was agreed takes the others' state") {
  const std::vector<StepMark> marks = {mark(9, 9), mark(7, 8)};
  CHECK(plan_sync(marks, 0).receive);
  CHECK(plan_sync(marks, 1).root == 1);
  CHECK(plan_sync(marks, 1).finished == 8);
}

TEST_CASE("all members learn each other's limits of memory") {
  CHECK(adaptdl::stricter(0, 0) == 0);
  CHECK(adaptdl::stricter(0, 8) == 8);
  CHECK(adaptdl::stricter(8, 0) == 8);
  CHECK(adaptdl::stricter(8, 16) == 8);
  CHECK(plan_sync({{true, 5, 5}, {true, 5, 5, false, 16}, {false, 0, 0, false, 12}}, 0)
            .atomic_limits == std::vector<int64_t>{0, 16, 12});
}

TEST_CASE("members that see other data than the others are found before they receive the state") {
  const StepMark trains = seeing(mark(7, 7), 400, 1);
  CHECK_FALSE(plan_sync({trains, trains, seeing(kNone, 400, 1)}, 2).data_differ);
  for (const StepMark& newcomer : {seeing(kNone, 401, 1), seeing(kNone, 400, 2)}) {
    for (int rank = 0; rank < 3; ++rank) {
      // What those with the state see counts, be they few.
      const SyncPlan plan = plan_sync({newcomer, newcomer, trains}, rank);
      CHECK(plan.data_differ);
      CHECK(plan.data == trains.data);
    }
  }
  // Nobody has trained: most are right.
  const StepMark one = seeing(kNone, 400, 1), other = seeing(kNone, 401, 1);
  CHECK(plan_sync({other, one, one}, 0).data == one.data);
  CHECK(plan_sync({other, one}, 0).data == other.data);
  CHECK_FALSE(plan_sync({one, one}, 0).data_differ);
}

TEST_CASE("what differs between data") {
  const adaptdl::data::Data data = synthetic(401);
  adaptdl::SeenData seen = adaptdl::seen_data(data);
  CHECK(adaptdl::describe_difference(data, seen, "the others").empty());
  CHECK(adaptdl::seen_data_from_json(adaptdl::to_json(seen)) == seen);
  CHECK_FALSE(adaptdl::seen_data_from_json(nullptr).has_value());
  ++seen.train.content;
  CHECK(adaptdl::describe_difference(data, seen, "the others") ==
        "sees as many samples in synthetic data as the others, but the files differ");
  seen.train.samples = 400;
  CHECK(adaptdl::describe_difference(data, seen, "the others") ==
        "sees 401 samples in synthetic data, the others 400");
}

TEST_CASE("whatever the history, all plans fit together and no finished step is lost") {
  std::mt19937_64 draw(1);
  for (int round = 0; round < 20000; ++round) {
    const int old_size = static_cast<int>(draw() % 5) + 1;
    const auto step = static_cast<int64_t>(draw() % 100) + 1;
    // How far the step after `step` came before the generation broke: a member applies only when
    // all have prepared, and announcing comes after applying.
    const bool all_prepared = draw() % 2;
    bool finished = false;
    std::vector<StepMark> old;
    for (int i = 0; i < old_size; ++i) {
      const bool prepared = all_prepared || draw() % 2;
      const bool applied = all_prepared && draw() % 2;
      finished |= applied;
      old.push_back(mark(applied ? step + 1 : step, prepared ? step + 1 : step));
    }
    std::vector<StepMark> marks;  // survivors, and members of the same generation without state
    for (const auto& mark : old) {
      if (draw() % 3) marks.push_back(mark);
    }
    if (marks.empty()) marks.push_back(old[draw() % old.size()]);
    for (uint64_t i = draw() % 3; i > 0; --i) marks.push_back(kNone);
    if (draw() % 2) std::shuffle(marks.begin(), marks.end(), draw);

    const SyncPlan first = plan_sync(marks, 0);
    REQUIRE(first.root >= 0);
    REQUIRE(marks[static_cast<size_t>(first.root)].has_state);
    if (finished) CHECK(first.finished == step + 1);
    for (size_t rank = 0; rank < marks.size(); ++rank) {
      const SyncPlan plan = plan_sync(marks, static_cast<int>(rank));
      CHECK(plan.root == first.root);
      CHECK(plan.finished == first.finished);
      CHECK(plan.transfer == first.transfer);
      CHECK(plan.receive == !marks[rank].has_state);
      if (marks[rank].has_state) CHECK(marks[rank].prepared >= plan.finished);
    }
  }
}
