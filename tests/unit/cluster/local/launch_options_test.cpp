#include "core/cluster/local/runner/launch_options.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/unit/cluster/local/granted_command.h"

using namespace adaptdl;
using namespace adaptdl::local;

TEST_CASE("runner: as many replicas as the slots hold, within the job's bounds") {
  GrantedJob read = granted_job(granted_command(), "job.json");
  const auto bounds = [&](const std::vector<int>& slots) {
    return command_options(read, {"/f"}, slots, "").replicas;
  };
  CHECK(bounds({0, 1, 2}).initial == 3);
  CHECK(bounds({5}).initial == 1);
  CHECK(bounds({5}).min == 1);
  read.grant.max_replicas = 2;
  CHECK(bounds({0, 1, 2}).initial == 2);
  read.grant.slots_per_replica = 2;
  CHECK(bounds({0, 1, 2}).initial == 1);
  CHECK_THROWS_AS(bounds({0}), UsageError);
  CHECK(command_options(read, {"/f"}, {0, 1}, "http://x:1/j/t/").supervisor_url ==
        "http://x:1/j/t");
}

TEST_CASE("runner: cores and GPUs are a replica's own, shared slots only count") {
  for (const auto& [kind, bound] : {std::pair("core", true), {"gpu", true}, {"shared", false}}) {
    Json with = granted_command();
    with["grant"]["slot_kind"] = kind;
    const GrantedJob read = granted_job(with, "job.json");
    CHECK(read.grant.bound() == bound);
    CHECK(read.grant.on_gpus() == (std::string(kind) == "gpu"));
    if (read.grant.on_gpus()) continue;  // which this machine may not have
    CHECK(command_options(read, {"/f"}, {0, 1}, "").bound == bound);
    CHECK(training_options(read, {"/f"}, {0, 1}).bound == bound);
  }
}

TEST_CASE("runner: paths of the specification are in the directory that was granted") {
  GrantedJob read = granted_job(granted_command(), "job.json");
  launch::CommandOptions command = command_options(read, {"/f"}, {0, 1}, "");
  CHECK(command.name == "a");
  CHECK(command.job_namespace == "default");
  CHECK(command.program == "/p/bin/train");
  CHECK(command.directory == "/p");
  CHECK(command.arguments == std::vector<std::string>{"x"});
  CHECK(command.environment.at("A") == "b");
  CHECK(command.tensorboard_dir == "/t/charts");
  CHECK(command.max_failures == 5);
  CHECK(command.grace_s == 7);
  CHECK(command.control_socket == "/f/control.sock");
  CHECK(command.record_file == "/f/run.json");
  read.spec.program = "python3";  // a command in PATH
  CHECK(command_options(read, {"/f"}, {0, 1}, "").program == "python3");
  read.spec.kind = JobSpec::Kind::archive;
  read.spec.program = "train.pt";
  const launch::RunOptions run = training_options(read, {"/f"}, {0, 1});
  CHECK(run.program == "/p/train.pt");
  CHECK(run.checkpoint_dir == "/f/checkpoints");
  CHECK(run.output_dir == "/f/output");
  CHECK(run.max_restarts == 5);
}

TEST_CASE("runner: slots on the command line") {
  CHECK(parse_slots("0,3") == std::vector{0, 3});
  for (const char* wrong : {"", "1,", ",1", "1,1", "-1", "a", "1 2", "0-3"}) {
    CHECK_THROWS_AS(parse_slots(wrong), UsageError);
  }
}
