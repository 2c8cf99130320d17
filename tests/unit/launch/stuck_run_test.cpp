// Replicas that do not end, and replicas that cannot begin.

#include <doctest/doctest.h>
#include <filesystem>
#include <signal.h>

#include "core/base/clock.h"
#include "tests/support/soon.h"
#include "tests/unit/launch/test_run.h"

namespace adaptdl::launch::testing {
namespace {

void pass_to_worker(TestRun& run, const std::vector<std::string>& arguments) {
  for (const auto& argument : arguments) run.options.arguments.push_back(argument);
}

// The worker's executable, which can be taken away.
std::string own_worker(TestRun& run) {
  const std::string path = run.folder() + "/worker";
  std::filesystem::copy_file(run.options.worker_path, path);
  run.options.worker_path = path;
  return path;
}

}  // namespace

TEST_CASE("stuck run: a process that outlives its channel is killed, and replaced") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.system_root = run.folder() + "/root";
  make_directories(run.options.system_root + "/proc");
  write_file_atomic(run.options.system_root + "/proc/vmstat", "oom_kill 0\n");
  pass_to_worker(run, {"root=" + run.options.system_root, "steps=80", "atomic=32", "memory=1:16",
                       "memory_step=20", "late_end=600000"});
  run.start();
  REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
  CHECK(steps_complete(run.events("step"), 1, 80));
  CHECK(run.events("failure").size() == 1);
}

TEST_CASE("stuck run: replicas that do not end when they are told to are killed after the grace") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.hang_timeout_s = 0;
  run.options.grace_s = 0.5;
  pass_to_worker(run, {"steps=100000", "hang-all=20"});
  run.start();
  run.wait_for_step(19);
  const auto members = run.members();
  REQUIRE(members.size() == 2);
  const TimePoint begun = Monotonic::now();
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(seconds_since(begun) >= 0.5);
  CHECK(run.talk().find("did not end within") != std::string::npos);
  CHECK(run.talk().find("without a final checkpoint") != std::string::npos);
  for (const auto& [id, pid] : members) CHECK_FALSE(alive(pid));
}

TEST_CASE("stuck run: a replica that saves when its run is told to stop is not killed") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.grace_s = 1.5;
  pass_to_worker(run, {"steps=100000", "checkpoint=100000", "saves=30:4000"});
  run.start();
  run.wait_for_step(30);
  const TimePoint begun = Monotonic::now();
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(seconds_since(begun) > 1.5);
  CHECK(run.talk().find("did not end within") == std::string::npos);
  CHECK(run.events("end").back()["checkpoint"] == true);
}

TEST_CASE("stuck run: a second signal ends a run at once, also while a replica saves") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  pass_to_worker(run, {"steps=100000", "checkpoint=100000", "saves=30:600000"});
  run.start();
  run.wait_for_step(30);
  run.signal(SIGINT);
  CHECK(adaptdl::testing::soon([&] {
    return run.request({{"request", "status"}})["reason"] == "stopped";
  }));
  run.signal(SIGINT);
  CHECK(run.wait(30) == 130);
  CHECK(run.events("end").back()["checkpoint"] == false);
}

TEST_CASE("stuck run: replicas that cannot be started stop nobody who trains") {
  TestRun run;
  run.options.replicas = {1, 2, 2};
  run.options.max_restarts = 1;
  const std::string path = own_worker(run);
  pass_to_worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(5);
  std::filesystem::remove(path);
  const auto members = run.members();
  REQUIRE(members.size() == 2);
  ::kill(members[1].second, SIGKILL);
  CHECK(adaptdl::testing::soon([&] { return run.events("failure").size() == 3; }));
  run.wait_for_step(run.events("step").back()["step"].get<int64_t>() + 50);
  run.signal(SIGTERM);
  REQUIRE_MESSAGE(run.wait() == 143, run.talk());
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
  const auto failures = run.events("failure");
  REQUIRE(failures.size() == 3);  // the death, and two that could not be started
  CHECK(failures[2]["reason"].get<std::string>().find(path) != std::string::npos);
}

TEST_CASE("stuck run: a run whose replicas cannot be started any more ends, and says why") {
  TestRun run;
  run.options.max_restarts = 1;
  const std::string path = own_worker(run);
  pass_to_worker(run, {"steps=100000", "checkpoint=5"});
  run.start();
  run.wait_for_step(10);
  std::filesystem::remove(path);
  ::kill(run.members().at(0).second, SIGKILL);
  CHECK(run.wait(60) == 1);
  CHECK(run.talk().find(path) != std::string::npos);
  CHECK_FALSE(list_directory(run.options.checkpoint_dir).empty());
}

}  // namespace adaptdl::launch::testing
