#include "core/cluster/local/next_action.h"

#include <doctest/doctest.h>

using namespace adaptdl;
using namespace adaptdl::local;
using Kind = NextAction::Kind;

namespace {

const TimePoint kNow = TimePoint(std::chrono::seconds(1000));

TimePoint in_s(int seconds) {
  return kNow + std::chrono::seconds(seconds);
}

// Eight slots, so many of them free.
SlotLedger with_free(int count) {
  SlotLedger slots(8);
  slots.take("others", 8 - count);
  return slots;
}

}  // namespace

TEST_CASE("a job starts when all the slots that it is to have are free") {
  JobState job;
  CHECK(next_action("job", job, with_free(4), kNow).kind == Kind::none);
  job.wanted = 2;
  job.slots_per_replica = 2;
  CHECK(next_action("job", job, with_free(3), kNow).kind == Kind::none);
  const NextAction next = next_action("job", job, with_free(4), kNow);
  CHECK(next.kind == Kind::start);
  CHECK(next.take == 4);
}

TEST_CASE("a job that failed waits before it starts again") {
  JobState job;
  job.wanted = 1;
  job.retry_at = in_s(3);
  const NextAction next = next_action("job", job, with_free(4), kNow);
  CHECK(next.kind == Kind::none);
  CHECK(next.again == in_s(3));
  CHECK(next_action("job", job, with_free(4), in_s(3)).kind == Kind::start);
}

TEST_CASE("a live job is told of other slots, one request at a time") {
  JobState job;
  job.live = true;
  job.granted = {0, 2, 3};
  job.wanted = 3;
  CHECK(next_action("job", job, with_free(0), kNow).kind == Kind::none);
  job.wanted = 1;
  NextAction next = next_action("job", job, with_free(0), kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.keep == std::vector<int>{0});
  CHECK(next.take == 0);
  job.wanted = 5;
  CHECK(next_action("job", job, with_free(1), kNow).kind == Kind::none);
  next = next_action("job", job, with_free(2), kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.keep == job.granted);
  CHECK(next.take == 2);
  job.scaling = true;
  CHECK(next_action("job", job, with_free(2), kNow).kind == Kind::none);
}

TEST_CASE("a job whose training is finished keeps its slots until it ends or is stopped") {
  JobState job;
  job.live = job.finished = true;
  job.granted = {0, 2};
  for (job.wanted = 1; job.wanted <= 3; ++job.wanted) {
    CHECK(next_action("job", job, with_free(2), kNow).kind == Kind::none);
  }
  job.wanted = 0;
  CHECK(next_action("job", job, with_free(2), kNow).kind == Kind::stop);
}

TEST_CASE("a job that is to have nothing stops, and is killed if it does not") {
  JobState job;
  job.live = true;
  job.granted = {0};
  job.scaling = true;  // no reason to wait
  CHECK(next_action("job", job, with_free(0), kNow).kind == Kind::stop);
  job.stopping = true;
  job.kill_at = in_s(30);
  NextAction next = next_action("job", job, with_free(0), kNow);
  CHECK(next.kind == Kind::none);
  CHECK(next.again == in_s(30));
  CHECK(next_action("job", job, with_free(0), in_s(30)).kind == Kind::kill);
  job.wanted = 1;  // its turn again: it must end first
  CHECK(next_action("job", job, with_free(8), kNow).kind == Kind::none);
}

TEST_CASE("a cancelled job ends once its runner has") {
  JobState job;
  job.wanted = 2;
  job.live = job.cancelled = true;
  job.granted = {0, 1};
  CHECK(next_action("job", job, with_free(0), kNow).kind == Kind::stop);
  job.live = false;
  CHECK(next_action("job", job, with_free(2), kNow).kind == Kind::cancel);
}

TEST_CASE("the delay before another start doubles up to a minute") {
  CHECK(restart_delay_s(1) == 1);
  CHECK(restart_delay_s(2) == 2);
  CHECK(restart_delay_s(6) == 32);
  CHECK(restart_delay_s(7) == 60);
  CHECK(restart_delay_s(1000) == 60);
}

TEST_CASE("a job moves to slots of another kind") {
  JobState job;
  job.live = true;
  job.wanted = 2;
  job.granted = {0, 1};
  job.kind = 1;
  SlotLedger slots(5, {0, 0, 1, 1, 1});
  slots.hold("job", job.granted);
  NextAction next = next_action("job", job, slots, kNow);  // once all are free
  CHECK(next.kind == Kind::scale);
  CHECK(next.keep.empty());
  CHECK(next.take == 2);
  slots.hold("other", {2, 3});
  CHECK(next_action("job", job, slots, kNow).kind == Kind::none);
  job.wanted = 1;
  next = next_action("job", job, slots, kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.take == 1);
  job.restarts = true;
  CHECK(next_action("job", job, slots, kNow).kind == Kind::stop);
  job.wanted = 2;  // not before all are free
  CHECK(next_action("job", job, slots, kNow).kind == Kind::none);

  // Back, before it has left the first ones.
  job.restarts = false;
  job.wanted = 1;
  job.granted = {4};
  slots.hold("job", {4});
  job.kind = 0;
  next = next_action("job", job, slots, kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(slots.take("job", next.take, job.kind, job.granted) == std::vector<int>{0});
}

TEST_CASE("of jobs that wait for each other's slots one stops") {
  JobState a, b;
  a.live = b.live = true;
  a.wanted = b.wanted = 1;
  a.granted = {0};
  b.granted = {1};
  a.kind = b.kind = 1;
  SlotLedger slots(2, {0, 1});
  slots.hold("a", {0});
  slots.hold("b", {1});
  const std::map<std::string, const JobState*> jobs = {{"a", &a}, {"b", &b}};
  CHECK(stuck_job(jobs, slots).empty());  // b stays: nothing would be gained
  b.stopping = true;
  CHECK(stuck_job(jobs, slots).empty());
  b.stopping = false;
  b.granted = {};  // it has been told to leave
  CHECK(stuck_job(jobs, slots).empty());
  b.granted = {1};
  b.kind = 0;
  CHECK(stuck_job(jobs, slots) == "a");
  a.stopping = true;
  CHECK(stuck_job(jobs, slots).empty());
  a.stopping = false;
  b.scaling = true;
  CHECK(stuck_job(jobs, slots).empty());
}

TEST_CASE("a job whose slots have come to be of several kinds goes on") {
  JobState job;
  job.live = true;
  job.wanted = 2;
  job.granted = {1, 2};
  job.kind = kAnyKind;
  const SlotLedger slots(4, {0, 0, 1, 1});
  CHECK(next_action("job", job, slots, kNow).kind == Kind::none);
  CHECK(stuck_job({{"job", &job}}, slots).empty());
  job.wanted = 1;
  CHECK(next_action("job", job, slots, kNow).keep == std::vector<int>{1});
}

TEST_CASE("a job that is still on slots of two kinds keeps those of one") {
  JobState job;
  job.live = true;
  job.wanted = 1;
  job.granted = {0, 2, 3};
  job.kind = 1;
  const SlotLedger slots(4, {0, 0, 1, 1});
  const NextAction next = next_action("job", job, slots, kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.keep == std::vector<int>{2});
  CHECK(next.take == 0);
}

TEST_CASE("a live command without slots, whose start was not recorded, gets some") {
  JobState job;
  job.live = job.restarts = true;
  job.wanted = 1;
  const NextAction next = next_action("job", job, SlotLedger(1), kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.take == 1);
}
