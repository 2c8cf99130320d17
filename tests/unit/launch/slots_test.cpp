#include "core/launch/slots.h"

#include <doctest/doctest.h>

using namespace adaptdl::launch;

TEST_CASE("slots: each replica has its own GPUs, as long as there are any") {
  const std::vector<std::string> gpus = {"0", "GPU-b", "2"};
  CHECK(visible_gpus(gpus, slots_of({0, 1, 2}, 1, 1)) == "GPU-b");
  CHECK(visible_gpus(gpus, slots_of({2, 0, 1}, 0, 2)) == "2,0");
  // The fourth replica shares the first one's.
  CHECK(visible_gpus(gpus, slots_of({0, 1, 2, 3, 4}, 3, 1)) == "0");
  CHECK(visible_gpus(gpus, slots_of({0, 1, 2, 3, 4}, 4, 1)) == "GPU-b");
}

TEST_CASE("slots: the kind of a replica's") {
  CHECK_FALSE(accelerator_of({0}, {}));
  CHECK_FALSE(accelerator_of({}, {{0, "fast"}}));
  CHECK(accelerator_of({3, 4}, {{0, "fast"}, {3, "slow"}, {4, "slow"}}) == "slow");
}
