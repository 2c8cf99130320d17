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

TEST_CASE("slots of several kinds are nodes that share the machine") {
  Machine machine{.name = "here", .gpus = true, .slots = 4, .cores = 8, .memory = 1000};
  CHECK(nodes_of(machine).size() == 1);
  CHECK(nodes_of(machine)[0].name == "here");
  JobSpec any;
  CHECK(machine.most_slots(any) == 4);
  machine.kinds = {"small", "large"};
  machine.slot_kinds = {0, 1, 0, 0};
  CHECK(machine.most_slots(any) == 3);
  const std::vector<ClusterNode> nodes = nodes_of(machine);
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].name == "small");
  CHECK(nodes[0].accelerator == "small");
  CHECK(nodes[0].free_for_jobs ==
        Resources{{"nvidia.com/gpu", 3}, {"cpu", 8000}, {"memory", 1000}});
  CHECK(nodes[1].free_for_jobs ==
        Resources{{"nvidia.com/gpu", 1}, {"cpu", 8000}, {"memory", 1000}});

  JobSpec spec;
  spec.request.gpus = 1;
  CHECK(shortage(machine, spec, 3).empty());
  CHECK(shortage(machine, spec, 4).find("3 GPUs for jobs on small") != std::string::npos);
  spec.request.memory_bytes = 400;
  CHECK(shortage(machine, spec, 2).empty());
  CHECK_FALSE(shortage(machine, spec, 3).empty());
}

TEST_CASE("a job is on the kinds of slots that it names") {
  Machine machine{.gpus = true, .slots = 4, .cores = 8};
  JobSpec spec;
  spec.request.accelerators = {"large*", "huge"};
  CHECK_FALSE(machine.may_use(spec, 0));  // nobody knows their kind
  CHECK(shortage(machine, spec, 1) ==
        "this machine has no slots of the kinds that the job names (large*, huge)");
  CHECK(machine.most_slots(spec) == 0);
  machine.common_kind = "large-2";
  CHECK(machine.may_use(spec, 0));
  CHECK(shortage(machine, spec, 4).empty());
  machine.common_kind.clear();
  machine.kinds = {"small", "large"};
  machine.slot_kinds = {0, 1, 0, 0};
  CHECK_FALSE(machine.may_use(spec, 0));
  CHECK(machine.may_use(spec, 1));
  CHECK(machine.most_slots(spec) == 1);
  CHECK(shortage(machine, spec, 1).empty());
  CHECK(shortage(machine, spec, 2).find("1 GPUs for jobs on large") != std::string::npos);
}
