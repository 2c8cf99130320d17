#include "runtime/profile/step_profile.h"

#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"
#include "core/goodput/goodput.h"

namespace adaptdl {
namespace {

StepTiming timing(int replicas, int64_t atomic, double optim_s, double sync_s = 0) {
  StepTiming result;
  result.replicas = replicas;
  result.atomic = atomic;
  result.optim_s = optim_s;
  result.sync_s = sync_s;
  return result;
}

int record_many(StepProfile& profile, const StepTiming& step, int times) {
  int counted = 0;
  for (int i = 0; i < times; ++i) counted += profile.record(step) ? 1 : 0;
  return counted;
}

TEST_CASE("means per placement and batch; a pass is timed with and without synchronisation") {
  StepProfile profile;
  StepTiming step = timing(2, 32, 0.5, 0.2);
  step.accum_steps = 3;
  step.accum_s = 0.1;
  CHECK(record_many(profile, step, 12) == 10);
  CHECK(record_many(profile, timing(2, 64, 0.9, 0.1), 12) == 10);
  const auto seen = profile.observations();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].atomic == 32);
  CHECK(seen[0].optim_time == doctest::Approx(0.5));
  CHECK(seen[0].accum_time == doctest::Approx((3 * 0.1 + 0.3) / 4));
  CHECK(seen[1].accum_time == doctest::Approx(0.8));
  CHECK(profile.steps(1, 2, 32) == 10);
  CHECK(profile.steps(1, 2, 33) == 0);
  CHECK(profile.max_replicas() == 2);
}

TEST_CASE("first steps of a generation and of a batch are left out") {
  StepProfile profile;
  profile.begin_generation();
  CHECK(record_many(profile, timing(1, 8, 0.1), 5) == 2);
  CHECK(record_many(profile, timing(1, 8, 0.1), 5) == 5);
  CHECK(record_many(profile, timing(1, 16, 0.1), 5) == 3);
  profile.begin_generation();
  CHECK(record_many(profile, timing(1, 16, 0.1), 5) == 2);
}

TEST_CASE("steps in halves between whole ones tell the time of half a batch, from the start") {
  StepProfile profile;
  profile.begin_generation();
  StepTiming halves = timing(1, 16, 0.06);
  halves.accum_steps = 1;
  halves.accum_s = 0.06;
  halves.halved = true;
  for (int i = 0; i < 10; ++i) {
    profile.record(timing(1, 32, 0.1));
    profile.record(halves);
  }
  CHECK(profile.steps(1, 1, 32) == 7);
  CHECK(profile.steps(1, 1, 16) == 7);
  const auto fitted = profile.fit();
  REQUIRE(fitted);
  CHECK(fitted->alpha_c == doctest::Approx(0.02).epsilon(0.01));
  // Another batch settles; halves do not make it settle again.
  CHECK(profile.record(timing(1, 32, 0.1)));
  CHECK(record_many(profile, timing(1, 64, 0.2), 5) == 3);
}

TEST_CASE("a hiccup is left out, a lasting change is not") {
  StepProfile profile;
  record_many(profile, timing(1, 8, 0.1), 12);
  CHECK(!profile.record(timing(1, 8, 5.0)));
  CHECK(profile.record(timing(1, 8, 0.12)));
  CHECK(profile.observations()[0].optim_time < 0.11);
  record_many(profile, timing(1, 8, 1.0), 30);
  CHECK(profile.observations()[0].optim_time == doctest::Approx(1.0));
}

TEST_CASE("what cannot be a time is left out") {
  StepProfile profile;
  record_many(profile, timing(1, 8, 0.1), 2);
  const double nan = std::nan("");
  for (StepTiming bad :
       {timing(1, 8, nan), timing(1, 8, 0), timing(1, 8, -1), timing(1, 8, 0.1, 0.2),
        timing(1, 8, 0.1, nan), timing(1, 8, HUGE_VAL), timing(0, 8, 0.1), timing(1, 0, 0.1)}) {
    CHECK(!profile.record(bad));
  }
  StepTiming bad = timing(1, 8, 0.1);
  bad.accum_steps = 1;
  CHECK(!profile.record(bad));
  CHECK(profile.empty());
  CHECK(!profile.fit());
}

TEST_CASE("old times fade") {
  StepProfile profile;
  record_many(profile, timing(1, 8, 0.1), 1000);
  record_many(profile, timing(1, 8, 0.2), 3000);
  CHECK(profile.observations()[0].optim_time == doctest::Approx(0.2).epsilon(0.01));
}

TEST_CASE("the fit over many placements predicts the steps") {
  const PerfParams truth{0.02, 0.0005, 0.1, 0.001, 0.03, 0.0008, 1.5};
  std::mt19937_64 engine(41);
  std::normal_distribution<> disturb(0, 0.03);
  StepProfile profile;
  for (const int replicas : {1, 2, 3, 4}) {
    profile.begin_generation();
    for (const int64_t atomic : {16, 64, 128}) {
      for (int i = 0; i < 40; ++i) {
        StepTiming step = timing(replicas, atomic, 0);
        const double compute = accum_time(truth, double(atomic));
        const double noise = std::exp(disturb(engine));
        step.optim_s = optim_time(truth, 1, replicas, double(atomic)) * noise;
        step.sync_s = step.optim_s - compute * noise;
        profile.record(step);
      }
    }
  }
  const auto fitted = profile.fit();
  REQUIRE(fitted);
  CHECK(profile.max_replicas() == 4);
  for (const int replicas : {1, 2, 4}) {
    CHECK(optim_time(*fitted, 1, replicas, 64) ==
          doctest::Approx(optim_time(truth, 1, replicas, 64)).epsilon(0.05));
  }
}

TEST_CASE("the state reads back to the last bit, and nonsense is refused") {
  StepProfile profile;
  for (int i = 0; i < 20; ++i) profile.record(timing(1 + i / 10, 32, 0.1 + i * 0.003, 0.01));
  const auto text = profile.to_json().dump();
  CHECK(StepProfile::from_json(nlohmann::json::parse(text)).to_json().dump() == text);
  CHECK(StepProfile::from_json(nlohmann::json::array()).empty());

  const auto good = nlohmann::json::parse(text);
  CHECK_THROWS_AS(StepProfile::from_json(nlohmann::json::object()), Error);
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    auto changed = good;
    changed[0][key] = value;
    CHECK_THROWS_AS(StepProfile::from_json(changed), Error);
  };
  refused("nodes", 0);
  refused("replicas", -1);
  refused("atomic", 0);
  refused("steps", 0);
  refused("accum", {0.1});
  refused("accum", {0.1, 0.0});
  refused("optim", {nullptr, 1});
  refused("optim", {-1, 1});
}

}  // namespace
}  // namespace adaptdl
