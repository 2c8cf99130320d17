#include "core/cluster/local/machine.h"

#include <doctest/doctest.h>
#include <limits>

using namespace adaptdl;
using namespace adaptdl::local;

TEST_CASE("a replica takes a slot at least, whatever it asks for") {
  Machine machine;
  machine.gpus = true;
  JobSpec spec;
  CHECK(slots_per_replica(machine, spec) == 1);
  for (const int64_t gpus : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{4} << 30,
                             std::numeric_limits<int64_t>::max()}) {
    CAPTURE(gpus);
    spec.request.gpus = gpus;
    CHECK(slots_per_replica(machine, spec) >= 1);
  }
  spec.request.gpus = 2;
  CHECK(slots_per_replica(machine, spec) == 2);
  machine.gpus = false;
  spec.request.cpu_millicores = 2500;
  CHECK(slots_per_replica(machine, spec) == 3);
}
