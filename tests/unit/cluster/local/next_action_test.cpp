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

}  // namespace

TEST_CASE("a job starts when all the slots that it is to have are free") {
  JobState job;
  CHECK(next_action(job, 4, kNow).kind == Kind::none);
  job.wanted = 2;
  job.slots_per_replica = 2;
  CHECK(next_action(job, 3, kNow).kind == Kind::none);
  const NextAction next = next_action(job, 4, kNow);
  CHECK(next.kind == Kind::start);
  CHECK(next.take == 4);
}

TEST_CASE("a job that failed waits before it starts again") {
  JobState job;
  job.wanted = 1;
  job.retry_at = in_s(3);
  const NextAction next = next_action(job, 4, kNow);
  CHECK(next.kind == Kind::none);
  CHECK(next.again == in_s(3));
  CHECK(next_action(job, 4, in_s(3)).kind == Kind::start);
}

TEST_CASE("a live job is told of other slots, one request at a time") {
  JobState job;
  job.live = true;
  job.granted = {0, 2, 3};
  job.wanted = 3;
  CHECK(next_action(job, 0, kNow).kind == Kind::none);
  job.wanted = 1;
  NextAction next = next_action(job, 0, kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.keep == std::vector<int>{0});
  CHECK(next.take == 0);
  job.wanted = 5;
  CHECK(next_action(job, 1, kNow).kind == Kind::none);
  next = next_action(job, 2, kNow);
  CHECK(next.kind == Kind::scale);
  CHECK(next.keep == job.granted);
  CHECK(next.take == 2);
  job.scaling = true;
  CHECK(next_action(job, 2, kNow).kind == Kind::none);
}

TEST_CASE("a job that is to have nothing stops, and is killed if it does not") {
  JobState job;
  job.live = true;
  job.granted = {0};
  job.scaling = true;  // no reason to wait
  CHECK(next_action(job, 0, kNow).kind == Kind::stop);
  job.stopping = true;
  job.kill_at = in_s(30);
  NextAction next = next_action(job, 0, kNow);
  CHECK(next.kind == Kind::none);
  CHECK(next.again == in_s(30));
  CHECK(next_action(job, 0, in_s(30)).kind == Kind::kill);
  job.wanted = 1;  // its turn again: it must end first
  CHECK(next_action(job, 8, kNow).kind == Kind::none);
}

TEST_CASE("a cancelled job ends once its runner has") {
  JobState job;
  job.wanted = 2;
  job.live = job.cancelled = true;
  job.granted = {0, 1};
  CHECK(next_action(job, 0, kNow).kind == Kind::stop);
  job.live = false;
  CHECK(next_action(job, 2, kNow).kind == Kind::cancel);
}

TEST_CASE("the delay before another start doubles up to a minute") {
  CHECK(restart_delay_s(1) == 1);
  CHECK(restart_delay_s(2) == 2);
  CHECK(restart_delay_s(6) == 32);
  CHECK(restart_delay_s(7) == 60);
  CHECK(restart_delay_s(1000) == 60);
}
