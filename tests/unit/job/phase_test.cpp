#include "core/job/phase.h"

#include <doctest/doctest.h>

namespace adaptdl {
namespace {

TEST_CASE("a job's phase follows from what is there") {
  CHECK(phase_of({}) == JobPhase::pending);
  CHECK(phase_of({.allocated = 2}) == JobPhase::starting);
  CHECK(phase_of({.allocated = 2, .present = 2}) == JobPhase::starting);
  CHECK(phase_of({.allocated = 2, .present = 2, .training = 2}) == JobPhase::running);
  CHECK(phase_of({.allocated = 0, .present = 2, .training = 2}) == JobPhase::stopping);
  CHECK(phase_of({.succeeded = true, .allocated = 2, .present = 1}) == JobPhase::succeeded);
  CHECK(phase_of({.failed = true}) == JobPhase::failed);
}

TEST_CASE("a live rescale does not stop a job") {
  CHECK(phase_of({.allocated = 4, .present = 4, .training = 2}) == JobPhase::running);
  CHECK(phase_of({.allocated = 1, .present = 3, .training = 3}) == JobPhase::running);
}

TEST_CASE("phases have AdaptDL's names") {
  CHECK(phase_name(JobPhase::pending) == "Pending");
  CHECK(phase_name(JobPhase::starting) == "Starting");
  CHECK(phase_name(JobPhase::running) == "Running");
  CHECK(phase_name(JobPhase::stopping) == "Stopping");
  CHECK(phase_name(JobPhase::succeeded) == "Succeeded");
  CHECK(phase_name(JobPhase::failed) == "Failed");
}

}  // namespace
}  // namespace adaptdl
