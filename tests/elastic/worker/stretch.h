#pragma once

// Makes steps as long as those of a recorded profile, for tests of the scheduler: many replicas on
// few cores then behave as on the accelerators that the profile was recorded on.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/goodput/params.h"

namespace adaptdl {

// Immutable; any thread.
class Stretch {
 public:
  // `step`: without accumulation. `sync`: the part of it that synchronises gradients.
  struct Times {
    Seconds step{0}, sync{0};
  };

  // Takes the profile's placements on one node. Throws Error as a reader of YAML.
  Stretch(std::string_view text, const std::string& path);

  // Of the profile (adaptdl-profile(5), YAML) that ADAPTDL_TEST_STRETCH names; null when it is
  // unset.
  static std::unique_ptr<Stretch> from_environment();

  // A number of replicas that was measured: linear in `atomic` between measurements, constant
  // beyond. Any other: by the step-time model fitted to all of them. Requires: replicas >= 1,
  // atomic > 0.
  Times at(int replicas, double atomic) const;

 private:
  std::map<int, std::vector<std::pair<double, Times>>> curves_;  // by replicas, then by batch
  PerfParams model_;
};

// Sleeps until `time` has passed since `begun`, unless it has.
void sleep_until_passed(TimePoint begun, Seconds time);

}  // namespace adaptdl
