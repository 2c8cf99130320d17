#include "runtime/optim/schedule.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/optim/torch_reference.h"

using namespace adaptdl;
using Kind = SchedulePart::Kind;
using doctest::Approx;

namespace {

SchedulePart part(Kind kind, double epochs = 0.0) {
  SchedulePart result;
  result.kind = kind;
  result.epochs = epochs;
  return result;
}

constexpr double kPerEpoch = 20.0;  // iterations

}  // namespace

TEST_CASE("without parts the factor is 1") {
  const Schedule schedule({}, kPerEpoch);
  CHECK(schedule.factor(0) == 1.0);
  CHECK(schedule.factor(1e9) == 1.0);
  CHECK_FALSE(schedule.watches_validation());
}

TEST_CASE("constant holds its factor") {
  auto p = part(Kind::constant);
  p.factor = 0.25;
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(0) == 0.25);
  CHECK(schedule.factor(12345) == 0.25);
}

TEST_CASE("step falls by gamma at each multiple of its interval") {
  auto p = part(Kind::step);
  p.every_epochs = 2;
  p.gamma = 0.5;
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(0) == 1.0);
  CHECK(schedule.factor(39.9) == 1.0);
  CHECK(schedule.factor(40) == 0.5);
  CHECK(schedule.factor(79.9) == 0.5);
  CHECK(schedule.factor(80) == 0.25);
  CHECK(schedule.factor(200) == 0.03125);
}

TEST_CASE("step meets its boundary although progress is a rounded sum") {
  auto p = part(Kind::step);
  p.every_epochs = 1;
  p.gamma = 0.5;
  const Schedule schedule({p}, 10.0 * 0.1);
  double progress = 0;
  for (int i = 0; i < 10; ++i) progress += 0.1;  // 0.9999999999999999
  CHECK(schedule.factor(progress) == 0.5);
}

TEST_CASE("multi_step falls at each milestone") {
  auto p = part(Kind::multi_step);
  p.milestones = {1, 1.5, 4};
  p.gamma = 0.1;
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(19.9) == 1.0);
  CHECK(schedule.factor(20) == Approx(0.1));
  CHECK(schedule.factor(30) == Approx(0.01));
  CHECK(schedule.factor(79.9) == Approx(0.01));
  CHECK(schedule.factor(80) == Approx(0.001));
}

TEST_CASE("exponential is continuous") {
  auto p = part(Kind::exponential);
  p.gamma = 0.9;
  p.every_epochs = 2;
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(0) == 1.0);
  CHECK(schedule.factor(20) == Approx(std::sqrt(0.9)));
  CHECK(schedule.factor(40) == Approx(0.9));
  CHECK(schedule.factor(400) == Approx(std::pow(0.9, 10)));
}

TEST_CASE("cosine goes from 1 to its final factor and stays there") {
  auto p = part(Kind::cosine, 10);
  p.final_factor = 0.2;
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(0) == Approx(1.0));
  CHECK(schedule.factor(50) == Approx(0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2));
  CHECK(schedule.factor(100) == Approx(0.6));
  CHECK(schedule.factor(200) == Approx(0.2));
  CHECK(schedule.factor(900) == Approx(0.2));
}

TEST_CASE("warmup rises linearly and then holds 1") {
  auto p = part(Kind::warmup, 2);
  p.start_factor = 0.1;
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(0) == Approx(0.1));
  CHECK(schedule.factor(10) == Approx(0.325));
  CHECK(schedule.factor(20) == Approx(0.55));
  CHECK(schedule.factor(40) == Approx(1.0));
  CHECK(schedule.factor(80) == Approx(1.0));
}

TEST_CASE("parts follow one another, each from its own start") {
  auto warmup = part(Kind::warmup, 1);
  auto flat = part(Kind::constant, 2);
  flat.factor = 0.7;
  auto cosine = part(Kind::cosine, 4);
  auto step = part(Kind::step);
  step.gamma = 0.1;
  const Schedule schedule({warmup, flat, cosine, step}, kPerEpoch);
  CHECK(schedule.factor(0) == Approx(0.0));
  CHECK(schedule.factor(10) == Approx(0.5));
  CHECK(schedule.factor(20) == Approx(0.7));
  CHECK(schedule.factor(59.9) == Approx(0.7));
  CHECK(schedule.factor(60) == Approx(1.0));
  CHECK(schedule.factor(100) == Approx(0.5));
  CHECK(schedule.factor(140) == Approx(1.0));
  CHECK(schedule.factor(159) == Approx(1.0));
  CHECK(schedule.factor(160) == Approx(0.1));
}

TEST_CASE("plateau falls after patience validations without improvement") {
  auto p = part(Kind::plateau);
  p.gamma = 0.5;
  p.patience = 1;
  p.threshold = 0.01;
  p.min_factor = 0.2;
  Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.watches_validation());
  auto validate = [&](double loss) {
    schedule.on_validation({{"loss", loss}, {"accuracy", 0.5}}, 10);
    return schedule.factor(10);
  };
  CHECK(validate(1.0) == 1.0);
  CHECK(validate(0.995) == 1.0);  // less than 1 % better: the first bad one
  CHECK(validate(0.98) == 1.0);   // better: counted afresh
  CHECK(validate(0.98) == 1.0);
  CHECK(validate(std::numeric_limits<double>::quiet_NaN()) == 0.5);
  CHECK(validate(2.0) == 0.5);
  CHECK(validate(2.0) == 0.25);
  CHECK(validate(2.0) == 0.25);
  CHECK(validate(2.0) == 0.2);  // not below min_factor
  CHECK(validate(0.1) == 0.2);
}

TEST_CASE("plateau of a metric that should rise, negative values too") {
  auto p = part(Kind::plateau);
  p.metric = "score";
  p.maximize = true;
  p.patience = 0;
  p.gamma = 0.1;
  Schedule schedule({p}, kPerEpoch);
  schedule.on_validation({{"score", -2.0}}, 0);
  schedule.on_validation({{"score", -1.0}}, 0);
  CHECK(schedule.factor(0) == 1.0);
  schedule.on_validation({{"score", -1.5}}, 0);
  CHECK(schedule.factor(0) == Approx(0.1));
}

TEST_CASE("a plateau after a warm-up ignores validations before it begins") {
  auto warmup = part(Kind::warmup, 1);
  auto p = part(Kind::plateau);
  p.patience = 0;
  Schedule schedule({warmup, p}, kPerEpoch);
  schedule.on_validation({{"loss", 0.001}}, 5);
  schedule.on_validation({{"loss", 1.0}}, 25);
  CHECK(schedule.factor(25) == 1.0);
  schedule.on_validation({{"loss", 1.0}}, 30);
  CHECK(schedule.factor(30) == Approx(0.1));
}

TEST_CASE("a plateau that watches an unknown metric says what there is") {
  auto p = part(Kind::plateau);
  p.metric = "accurracy";
  Schedule schedule({p}, kPerEpoch);
  CHECK_THROWS_WITH_AS(schedule.on_validation({{"accuracy", 0.9}, {"loss", 0.1}}, 0),
                       doctest::Contains("it returns accuracy, loss"), Error);
}

TEST_CASE("state survives a checkpoint") {
  auto warmup = part(Kind::warmup, 1);
  auto p = part(Kind::plateau);
  p.patience = 2;
  Schedule schedule({warmup, p}, kPerEpoch);
  for (int i = 0; i < 5; ++i) schedule.on_validation({{"loss", 1.0}}, 25);
  Schedule restored({warmup, p}, kPerEpoch);
  restored.load_state(nlohmann::json::parse(schedule.state().dump()));
  CHECK(restored.state() == schedule.state());
  CHECK(restored.factor(25) == schedule.factor(25));
  for (int i = 0; i < 3; ++i) {
    schedule.on_validation({{"loss", 1.0}}, 30);
    restored.on_validation({{"loss", 1.0}}, 30);
    CHECK(restored.factor(30) == schedule.factor(30));
  }
}

TEST_CASE("the cooldown of a plateau survives a checkpoint; earlier versions had none") {
  auto p = part(Kind::plateau);
  p.patience = 0;
  p.gamma = 0.5;
  p.cooldown = 2;
  Schedule schedule({p}, kPerEpoch), restored({p}, kPerEpoch);
  const auto validate = [](Schedule& which, int times) {
    for (int i = 0; i < times; ++i) which.on_validation({{"loss", 1.0}}, 0);
    return which.factor(0);
  };
  CHECK(validate(schedule, 2) == 0.5);
  CHECK(validate(schedule, 1) == 0.5);
  restored.load_state(schedule.state());
  CHECK(validate(restored, 1) == 0.5);
  CHECK(validate(restored, 1) == 0.25);
  restored.load_state(nlohmann::json::parse(R"([{"best": 1, "bad": 0, "factor": 0.5}])"));
  CHECK(validate(restored, 1) == 0.25);
}

TEST_CASE("cosine_restarts meets its restarts although progress is a rounded sum") {
  auto p = part(Kind::cosine_restarts);
  p.every_epochs = 0.1;
  for (const double multiplier : {1.0, 2.0}) {
    CAPTURE(multiplier);
    p.multiplier = multiplier;
    const Schedule schedule({p}, 10.0);
    double progress = 0, at = 1;
    for (int i = 1; i < 60; ++i) {
      for (int k = 0; k < 10; ++k) progress += 0.1;
      if (multiplier > 1 && i + 1 != 2 * at) continue;  // restarts at 1, 3, 7, 15, ...
      at = i + 1;
      CHECK(schedule.factor(progress) == Approx(1.0));
      CHECK(schedule.factor(progress - 0.01) < 0.01);
    }
  }
}

TEST_CASE("after the last part its final factor stays, also where a restart would follow") {
  for (const double length : {3.0, 7.0, 7.5}) {
    auto p = part(Kind::cosine_restarts, length);
    p.multiplier = length == 7 ? 2 : 1;
    p.final_factor = 0.1;
    const Schedule schedule({p}, 10.0);
    double progress = 0;
    for (int i = 0; i < static_cast<int>(length * 100); ++i) progress += 0.1;
    const double last = length == 7.5 ? 0.55 : 0.1;
    for (const double at : {10 * length - 1e-9, 10 * length, progress, 100.0}) {
      CHECK(schedule.factor(at) == Approx(last));
    }
    CHECK(schedule.factor(10) == Approx(1.0));
  }
}

TEST_CASE("a plateau's metric is checked before it is needed") {
  auto watches_loss = part(Kind::plateau, 1), other = part(Kind::plateau);
  other.metric = "accuracy";
  const Schedule schedule({part(Kind::constant, 1), watches_loss, other}, kPerEpoch);
  schedule.check_metrics({"accuracy", "loss"});
  CHECK_ERROR(schedule.check_metrics({"accuracy"}), "schedule.1: the plateau watches 'loss'");
  CHECK_ERROR(schedule.check_metrics({"loss", "top5"}), "it returns loss, top5");
  Schedule({part(Kind::constant)}, kPerEpoch).check_metrics({});
}

TEST_CASE("one_cycle rises to 1 and falls to nearly 0, however short it is") {
  auto p = part(Kind::one_cycle, 5);
  const Schedule schedule({p}, kPerEpoch);
  CHECK(schedule.factor(0) == Approx(1 / 25.0));
  CHECK(schedule.factor(29) == Approx(1.0));
  CHECK(schedule.factor(14.5) == Approx((1 + 1 / 25.0) / 2));
  CHECK(schedule.factor(99) == Approx(1 / 25.0 / 1e4));
  CHECK(schedule.factor(100) == Approx(1 / 25.0 / 1e4));
  CHECK(schedule.factor(1e6) == Approx(1 / 25.0 / 1e4));
  for (const double length : {1e-6, 0.05, 0.1, 0.15, 1.0}) {
    for (const double start : {0.0, 0.5, 1.0}) {
      p = part(Kind::one_cycle, length);
      p.pct_start = start;
      p.three_phase = length > 0.1;
      const Schedule brief({p}, kPerEpoch);
      for (double at = 0; at < 25; at += 0.125) {
        const double factor = brief.factor(at);
        CHECK(factor >= 0);
        CHECK(factor <= 1);
      }
    }
  }
}

TEST_CASE("state of another schedule is refused and changes nothing") {
  auto p = part(Kind::plateau);
  Schedule schedule({p}, kPerEpoch);
  const auto before = schedule.state();
  for (const char* text :
       {"[]", "{}", "[null]", "[{\"best\":1}]", "null", "[{\"best\":\"x\",\"bad\":0,\"factor\":1}]",
        "[{\"best\":1,\"bad\":-1,\"factor\":1}]",
        "[{\"best\":1,\"bad\":0,\"factor\":1,\"cooldown\":-1}]",
        "[{\"best\":1,\"bad\":0,\"factor\":1,\"cooldown\":\"2\"}]"}) {
    CHECK_THROWS_AS(schedule.load_state(nlohmann::json::parse(text)), Error);
    CHECK(schedule.state() == before);
  }
}

TEST_CASE("schedules are those of torch's lr_scheduler") {
  const auto reference = test::torch_reference();
  const double per_epoch = reference.at("iterations_per_epoch");
  for (const auto& one : reference.at("schedules")) {
    CAPTURE(one.at("schedule").dump());
    Schedule schedule(test::spec_with("schedule", one.at("schedule")).schedule, per_epoch);
    for (size_t i = 0; i < one.at("factors").size(); ++i) {
      CAPTURE(i);
      if (one.contains("metrics")) schedule.on_validation({{"loss", one.at("metrics")[i]}}, 0);
      const double progress = one.contains("metrics") ? 0 : static_cast<double>(i);
      CHECK(schedule.factor(progress) == Approx(one.at("factors")[i].get<double>()).epsilon(1e-12));
      const auto momentum = schedule.momentum(progress);
      REQUIRE(momentum.has_value() == one.contains("momenta"));
      if (momentum) CHECK(*momentum == Approx(one.at("momenta")[i].get<double>()).epsilon(1e-12));
    }
  }
}
