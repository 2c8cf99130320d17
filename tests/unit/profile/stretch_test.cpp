#include "tests/elastic/worker/stretch.h"

#include <cstdlib>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;

namespace {

constexpr const char* kProfile = R"(
rescale_s: 1
placements:
  - {gpus: [1], atomic: 128, step_s: 0.18, sync_s: 0}
  - {gpus: [1], atomic: 32, step_s: 0.06, sync_s: 0}
  - {gpus: [2], atomic: 32, step_s: 0.08, sync_s: 0.02}
  - {gpus: [2], atomic: 128, step_s: 0.20, sync_s: 0.02}
  - {gpus: [1, 1], atomic: 32, step_s: 9, sync_s: 8}
validation: []
)";

}  // namespace

TEST_CASE("stretch: measured placements of one node, and the model for others") {
  const Stretch stretch(kProfile, "profile.yaml");
  CHECK(stretch.at(1, 32).step.count() == doctest::Approx(0.06));
  CHECK(stretch.at(1, 80).step.count() == doctest::Approx(0.12));
  CHECK(stretch.at(1, 1).step.count() == doctest::Approx(0.06));
  CHECK(stretch.at(1, 500).step.count() == doctest::Approx(0.18));
  CHECK(stretch.at(2, 32).sync.count() == doctest::Approx(0.02));
  const Stretch::Times four = stretch.at(4, 64);
  CHECK(four.step.count() > 0.09);
  CHECK(four.step.count() < 0.2);
  CHECK(four.sync.count() > 0);
  CHECK(four.sync < four.step);
}

TEST_CASE("stretch: what is no profile is refused with its place") {
  for (const char* wrong :
       {"", "placements: []", "placements: [{gpus: [1, 1], atomic: 1, step_s: 1, sync_s: 0}]",
        "placements: [{gpus: [1], atomic: 1, step_s: 1, sync_s: 2}]",
        "placements: [{gpus: [1]}]"}) {
    CHECK_THROWS_AS(Stretch(wrong, "profile.yaml"), Error);
  }
}

TEST_CASE("stretch: on by its variable, and waits for what is left only") {
  CHECK(Stretch::from_environment() == nullptr);
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("profile.yaml"), kProfile);
  setenv("ADAPTDL_TEST_STRETCH", folder.file("profile.yaml").c_str(), 1);
  CHECK(Stretch::from_environment() != nullptr);
  unsetenv("ADAPTDL_TEST_STRETCH");
  const TimePoint begun = Monotonic::now();
  sleep_until_passed(begun, Seconds(0.05));
  CHECK(seconds_since(begun) >= 0.05);
  sleep_until_passed(begun - std::chrono::seconds(10), Seconds(5));
  CHECK(seconds_since(begun) < 4);
}
