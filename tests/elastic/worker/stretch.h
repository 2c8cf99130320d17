#pragma once

// Makes steps as long as those of a recorded profile, for tests of the scheduler: many replicas on
// few cores then behave as on the accelerators of the profile.

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
  // `step`: without accumulation. `sync`: the part of the step that synchronises gradients.
  struct Times {
    Seconds step{0}, sync{0};
  };

  // Uses the profile's placements on one node. Throws Error for invalid YAML or contents.
  Stretch(std::string_view text, const std::string& path);

  // Loads the profile (adaptdl-profile(5), YAML) that ADAPTDL_TEST_STRETCH names; null if it is
  // unset.
  static std::unique_ptr<Stretch> from_environment();

  // For a measured number of replicas: linear in `atomic` between measurements, constant beyond
  // them. For others: from the step-time model fitted to all measurements. Requires:
  // replicas >= 1, atomic > 0.
  Times at(int replicas, double atomic) const;

 private:
  std::map<int, std::vector<std::pair<double, Times>>> curves_;  // by replicas, then by batch
  PerfParams model_;
};

// Sleeps until `time` has passed since `begun`.
void sleep_until_passed(TimePoint begun, Seconds time);

}  // namespace adaptdl
