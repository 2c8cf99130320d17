#include "core/cluster/local/job_step.h"

#include <doctest/doctest.h>

using namespace adaptdl;
using namespace adaptdl::local;
using Action = JobStep::Action;

namespace {

const TimePoint kNow = TimePoint(std::chrono::seconds(1000));

TimePoint in_s(int seconds) {
  return kNow + std::chrono::seconds(seconds);
}

}  // namespace

TEST_CASE("a job starts when all the slots that it is to have are free") {
  JobState job;
  CHECK(next_step(job, 4, kNow).action == Action::none);
  job.wanted = 2;
  job.slots_per_replica = 2;
  CHECK(next_step(job, 3, kNow).action == Action::none);
  const JobStep step = next_step(job, 4, kNow);
  CHECK(step.action == Action::start);
  CHECK(step.take == 4);
}

TEST_CASE("a job that failed waits before it starts again") {
  JobState job;
  job.wanted = 1;
  job.retry_at = in_s(3);
  const JobStep step = next_step(job, 4, kNow);
  CHECK(step.action == Action::none);
  CHECK(step.again == in_s(3));
  CHECK(next_step(job, 4, in_s(3)).action == Action::start);
}

TEST_CASE("a live job is told of other slots, one request at a time") {
  JobState job;
  job.live = true;
  job.granted = {0, 2, 3};
  job.wanted = 3;
  CHECK(next_step(job, 0, kNow).action == Action::none);
  job.wanted = 1;
  JobStep step = next_step(job, 0, kNow);
  CHECK(step.action == Action::scale);
  CHECK(step.keep == std::vector<int>{0});
  CHECK(step.take == 0);
  job.wanted = 5;
  CHECK(next_step(job, 1, kNow).action == Action::none);
  step = next_step(job, 2, kNow);
  CHECK(step.action == Action::scale);
  CHECK(step.keep == job.granted);
  CHECK(step.take == 2);
  job.scaling = true;
  CHECK(next_step(job, 2, kNow).action == Action::none);
}

TEST_CASE("a job that is to have nothing stops, and is killed if it does not") {
  JobState job;
  job.live = true;
  job.granted = {0};
  job.scaling = true;  // no reason to wait
  CHECK(next_step(job, 0, kNow).action == Action::stop);
  job.stopping = true;
  job.kill_at = in_s(30);
  JobStep step = next_step(job, 0, kNow);
  CHECK(step.action == Action::none);
  CHECK(step.again == in_s(30));
  CHECK(next_step(job, 0, in_s(30)).action == Action::kill);
  job.wanted = 1;  // its turn again: it must end first
  CHECK(next_step(job, 8, kNow).action == Action::none);
}

TEST_CASE("a cancelled job ends once its runner has") {
  JobState job;
  job.wanted = 2;
  job.live = job.cancelled = true;
  job.granted = {0, 1};
  CHECK(next_step(job, 0, kNow).action == Action::stop);
  job.live = false;
  CHECK(next_step(job, 2, kNow).action == Action::cancel);
}

TEST_CASE("the delay before another start doubles up to a minute") {
  CHECK(restart_delay_s(1) == 1);
  CHECK(restart_delay_s(2) == 2);
  CHECK(restart_delay_s(6) == 32);
  CHECK(restart_delay_s(7) == 60);
  CHECK(restart_delay_s(1000) == 60);
}
