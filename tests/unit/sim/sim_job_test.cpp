#include "core/sim/sim_job.h"

#include <doctest/doctest.h>

#include "tests/unit/sim/sample_profile.h"

using namespace adaptdl;

namespace {

// On one GPU, 20 samples take 0.2 s: 5 iterations a second while the batch is the initial one.
constexpr double kPerSecond = 5;

Profile with_epochs(double first_s, double second_s) {
  ProfileData data = sample_profile();
  const double end = first_s * kPerSecond, last = end + second_s * kPerSecond;
  data.runs = {{20, {{end, end, {4, 8}}, {last, last, {2, 8}}}}};
  data.max_batch = 20;
  return Profile(std::move(data));
}

}  // namespace

TEST_CASE("a job first waits for its rescale, then trains at its profile's speed") {
  const Profile profile(sample_profile());
  SimJob job(profile, 0);
  job.place({0}, 30);
  CHECK(job.rescaling());
  CHECK(job.batch().atomic == 20);
  job.advance(20, 0);
  CHECK(job.rescaling());
  CHECK(job.progress() == 0);
  job.advance(20, 0);
  CHECK_FALSE(job.rescaling());
  CHECK(job.progress() == doctest::Approx(10 * kPerSecond));
  CHECK(job.attained_service() == doctest::Approx(40));  // it holds its GPU all the time
}

TEST_CASE("a job trains with what it has until more replicas have started") {
  const Profile profile = with_epochs(100, 100);
  SimJob job(profile, 0);
  job.place({0}, 1, 9);  // from nothing it waits for both
  job.advance(12, 0);
  CHECK(job.progress() == doctest::Approx(2 * kPerSecond));
  job.place({0, 0}, 1, 9);
  CHECK(job.replicas() == 1);
  job.advance(4, 0);
  CHECK(job.progress() == doctest::Approx(6 * kPerSecond));
  CHECK(job.attained_service() == doctest::Approx(12 + 2 * 4));  // it holds both
  job.advance(6, 0);                                             // 5 s of them alone
  CHECK(job.progress() == doctest::Approx(11 * kPerSecond));
  CHECK(job.replicas() == 2);
  job.advance(1, 0);
  CHECK(job.progress() > 11 * kPerSecond);

  job.place({0}, 0, 9);  // fewer have nobody to wait for
  CHECK(job.replicas() == 1);
  job.place({0, 0}, 1, 9);
  job.advance(3, 0);
  const double before = job.progress();
  job.place({0}, 1, 9);  // as it was: nothing was lost
  job.advance(1, 0);
  CHECK(job.progress() == doctest::Approx(before + kPerSecond));
  CHECK_FALSE(job.rescaling());
}

TEST_CASE("a job none of whose nodes stays starts again, whatever its number of replicas") {
  const Profile profile = with_epochs(100, 100);
  SimJob job(profile, 0);
  job.place({0, 0}, 1, 9);
  job.advance(12, 0);
  const double before = job.progress();
  CHECK(before > 0);
  const auto stands_still = [&](const std::vector<int>& nodes, double for_s) {
    job.place(nodes, 1, 9);
    CHECK(job.replicas() == static_cast<int>(nodes.size()));  // its other GPUs are another's now
    const double progress = job.progress();
    job.advance(for_s - 0.5, 0);
    CHECK(job.progress() == progress);
    job.advance(1, 0);
    CHECK(job.progress() > progress);
  };
  stands_still({1, 1}, 10);  // as many
  stands_still({2}, 10);     // fewer
  stands_still({0, 0}, 10);  // more
  stands_still({0}, 1);      // some stay: they only rescale
  job.place({0, 0}, 1, 9);   // the second one starts
  stands_still({1}, 10);     // on other nodes it is not what it was, whatever its shape
  job.place({1, 1}, 1, 9);
  job.place({1}, 1, 9);  // this is
  CHECK_FALSE(job.rescaling());
}

TEST_CASE("a free move leaves a job as it is, without the replicas that are starting") {
  const Profile profile = with_epochs(100, 100);
  SimJob job(profile, 0);
  job.place({0}, 0, 9);
  job.advance(10, 0);
  job.place({0, 0}, 1, 9);
  job.move({1});
  job.advance(12, 0);
  CHECK(job.replicas() == 1);
  CHECK(job.progress() == doctest::Approx(13 * kPerSecond));
  job.place({1, 1}, 1, 9);  // the node where it is now stays
  CHECK(job.replicas() == 1);
}

TEST_CASE("a job trains where a recording says that steps are nothing but synchronisation") {
  ProfileData data = sample_profile();
  for (PlacementMeasurement& it : data.placements) it.time.sync_s = it.time.step_s;
  const Profile profile(data);
  SimJob job(profile, 0);
  job.place({0, 0}, 0);
  CHECK_NOTHROW(job.advance(60, 0));
  CHECK(job.progress() > 0);
  CHECK(job.hints().perf);
}

TEST_CASE("epochs end within a call, and the last one ends the job") {
  const Profile profile(sample_profile());  // epochs end at 100 and 199
  SimJob job(profile, 0);
  job.place({0}, 30);
  CHECK(job.remaining_progress() == 199);
  job.advance(60, 0);
  CHECK(job.epochs_finished() == 1);
  CHECK(job.progress() == doctest::Approx(150));
  CHECK(job.remaining_progress() == doctest::Approx(49));
  job.advance(60, 0);
  CHECK(job.finished());
  CHECK(job.finished_after() == doctest::Approx(70));  // 9.8 s count as 10
  CHECK(job.attained_service() == doctest::Approx(70));
  CHECK(job.remaining_progress() == 0);
}

TEST_CASE("the end of an epoch is rounded to whole seconds, half to even") {
  const auto seconds = [](double first_s, double second_s) {
    const Profile profile = with_epochs(first_s, second_s);
    SimJob job(profile, 0);
    job.place({0}, 0);
    job.advance(60, 0);
    REQUIRE(job.finished());
    return job.finished_after();
  };
  CHECK(seconds(2.5, 3.5) == 2 + 4);
  CHECK(seconds(0.4, 7.6) == 0 + 8);
}

TEST_CASE("rounding takes no job beyond the end of the time that passes") {
  const Profile profile = with_epochs(10.6, 20);
  SimJob job(profile, 0);
  job.place({0}, 0);
  job.advance(10.75, 0);
  CHECK(job.epochs_finished() == 1);
  CHECK(job.finished_after() == doctest::Approx(10.75));
}

TEST_CASE("service is counted for every GPU, and not without any") {
  const Profile profile(sample_profile());
  SimJob job(profile, 0);
  job.advance(100, 0);
  CHECK(job.attained_service() == 0);
  job.place({0, 1}, 30);
  CHECK(job.replicas() == 2);
  job.advance(10, 0);
  CHECK(job.attained_service() == 20);
  job.place({}, 30);
  CHECK_FALSE(job.rescaling());
  job.advance(10, 0);
  CHECK(job.attained_service() == 20);
  CHECK(job.progress() == 0);
}

TEST_CASE("a job tells nothing before it has trained") {
  const Profile profile(sample_profile());
  SimJob job(profile, 0);
  job.place({0, 0}, 30);
  job.advance(30, 0);
  CHECK_FALSE(job.hints().perf);
  CHECK_FALSE(job.hints().batch);
  CHECK(job.hints().max_profiled_replicas == 0);
  job.advance(5, 0);
  const JobHints hints = job.hints();
  REQUIRE(hints.perf);
  CHECK(hints.grad == GradParams{4, 8});
  CHECK(hints.max_profiled_replicas == 2);
  CHECK(hints.batch->initial == 20);
  CHECK_FALSE(hints.remaining_progress);
  job.place({0}, 30);
  job.advance(60, 0);
  CHECK(job.hints().max_profiled_replicas == 2);  // what it has learnt stays
}

TEST_CASE("a fixed batch is shared among the replicas") {
  const Profile profile(sample_profile());
  SimJob job(profile, 40);
  job.place({0}, 0);
  CHECK(job.batch() == BatchChoice{20, 1, 0});  // more than the initial batch: it accumulates
  job.place({0, 0}, 0);
  CHECK(job.batch() == BatchChoice{20, 0, 0});
  job.place({0, 0, 1, 1}, 0);
  CHECK(job.batch() == BatchChoice{10, 0, 0});
  job.advance(5, 0);
  CHECK(job.batch() == BatchChoice{10, 0, 0});
}

TEST_CASE("interference takes its share of the speed") {
  const Profile profile(sample_profile());
  SimJob alone(profile, 0), disturbed(profile, 0);
  alone.place({0}, 0);
  disturbed.place({0}, 0);
  alone.advance(10, 0);
  disturbed.advance(10, 0.25);
  CHECK(disturbed.progress() == doctest::Approx(0.75 * alone.progress()));
}
