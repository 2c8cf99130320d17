// The driver with a shell script in the place of the runner.

#include "core/cluster/local/job_driver.h"

#include <csignal>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/launch/command/leftovers.h"
#include "core/launch/io/control.h"
#include "tests/support/soon.h"

using namespace adaptdl;
using namespace adaptdl::local;
using adaptdl::testing::soon;

namespace {

LocalPaths paths_below(const std::string& folder) {
  LocalPaths paths;
  paths.folder = folder;
  paths.database = join_path(folder, "state.db");
  paths.jobs = join_path(folder, "jobs");
  return paths;
}

// A service's jobs after its start, which found the job "a" in the store.
struct Drive {
  TemporaryDirectory folder;
  LocalPaths paths = paths_below(folder.path());
  JobFolder job_folder{paths.job("a")};
  std::string adaptdl = folder.file("runner");
  Machine machine{.name = "here", .slots = 2, .cores = 2};
  ActiveJobs jobs{paths.database};
  SlotLedger slots{2};
  LocalSupervisor supervisor;
  JobDriver driver{{.jobs = jobs,
                    .slots = slots,
                    .supervisor = supervisor,
                    .machine = machine,
                    .paths = paths,
                    .adaptdl = adaptdl}};

  Drive() {
    make_directories(job_folder.path);
    supervisor.serve(0);
    ActiveJob stored;
    stored.record.name = "a";
    stored.record.token = "token";
    stored.record.spec = R"({"format":1,"kind":"command","program":"true"})";
    stored.record.replicas = 1;
    stored.record.slots = {0};
    ActiveJobs(paths.database).add(std::move(stored));
  }
  ActiveJob& job() { return *jobs.find("a"); }
  void runner(const std::string& script) {
    write_file_atomic(adaptdl, "#!/bin/sh\n" + script + "\n");
    REQUIRE(chmod(adaptdl.c_str(), 0700) == 0);
  }
  // Of another machine unless `boot` is this one's.
  void write_runner(pid_t pid, const std::string& boot) const {
    const Json facts = {{"pid", pid},
                        {"start_time", process_start_time(pid).value_or(0)},
                        {"boot_id", boot},
                        {"host", "far-away"}};
    replace_file(job_folder.runner_file(), dump_json(facts));
  }
  // The service's loop, until the job has no runner; any pause before it is over.
  void go_on() {
    job().state.retry_at = {};
    driver.advance();
    REQUIRE(soon([&] {
      driver.take_news();
      return !job().state.live;
    }));
  }
};

}  // namespace

TEST_CASE("job driver: a full disk is no failure of the job, which starts when there is room") {
  Drive drive;
  drive.driver.adopt();
  drive.runner("exit 74");
  for (int i = 0; i < 12; ++i) drive.go_on();
  ActiveJob& job = drive.job();
  CHECK_FALSE(job.record.ended());
  CHECK(job.record.starts == 12);
  CHECK(job.record.failures == 0);
  CHECK(job.record.reason == "DiskFull");
  CHECK(job.record.message.find(drive.job_folder.path) != std::string::npos);
  CHECK(job.state.retry_at > Monotonic::now() + std::chrono::seconds(30));
  CHECK(drive.slots.free() == 2);
  drive.runner("exit 0");
  drive.go_on();
  CHECK(job.record.phase == "Succeeded");
}

TEST_CASE("job driver: a runner that dies is a failure, at last of the job") {
  Drive drive;
  drive.driver.adopt();
  drive.runner("exit 9");
  for (int i = 0; i < 9; ++i) drive.go_on();
  CHECK(drive.job().record.failures == 9);
  CHECK_FALSE(drive.job().record.ended());
  drive.go_on();
  CHECK(drive.job().record.reason == "RunnerDied");
  CHECK(drive.job().record.phase == "Failed");
}

TEST_CASE("job driver: a job that runs on another machine is left to it, also if cancelled") {
  Drive drive;
  auto lock = lock_job_folder(drive.job_folder);
  REQUIRE(lock);
  drive.write_runner(7, "another boot");
  drive.driver.adopt();
  drive.runner("exit 75");
  ActiveJob& job = drive.job();
  for (const bool cancelled : {false, true}) {
    CAPTURE(cancelled);
    job.record.cancelled = job.state.cancelled = cancelled;
    for (int i = 0; i < 12; ++i) drive.go_on();
    CHECK_FALSE(job.record.ended());
    CHECK(job.record.starts == 0);
    CHECK(job.record.failures == 0);
    CHECK(job.record.reason == "RunsElsewhere");
    CHECK(job.record.message.find("far-away") != std::string::npos);
    CHECK(job.state.retry_at > Monotonic::now() + std::chrono::seconds(30));
  }
  std::vector<pollfd> waits;
  CHECK(drive.driver.add_waits(waits) <= job.state.retry_at);
  CHECK(path_exists(drive.job_folder.runner_file()));
  // It ends there, before it has heard of the wish.
  replace_file(drive.job_folder.run_record(), R"({"pid":7,"state":"finished","exit_code":0})");
  lock.reset();
  drive.go_on();
  CHECK(job.record.phase == "Succeeded");
}

TEST_CASE("job driver: who finds that another runner has the folder waits for it") {
  Drive drive;
  drive.driver.adopt();
  drive.runner("exit 75");
  for (int i = 0; i < 12; ++i) {
    drive.job().record.reason.clear();  // as if the lock were taken after the look at it
    drive.go_on();
  }
  CHECK_FALSE(drive.job().record.ended());
  CHECK(drive.job().record.starts == 12);
  CHECK(drive.job().record.failures == 0);
  CHECK(drive.job().record.reason == "RunsElsewhere");
  // Nobody has it any more, and nothing tells how it ended.
  drive.job().record.cancelled = drive.job().state.cancelled = true;
  drive.go_on();
  CHECK(drive.job().record.phase == "Cancelled");
}

TEST_CASE("job driver: a cancelled job's runner that is found only now is stopped before the end") {
  Drive drive;
  drive.driver.adopt();
  const auto lock = lock_job_folder(drive.job_folder);
  drive.write_runner(getpid(), boot_id());
  ActiveJob& job = drive.job();
  job.record.cancelled = job.state.cancelled = true;
  job.record.reason = "RunsElsewhere";
  for (int i = 0; i < 2; ++i) drive.driver.advance();
  CHECK_FALSE(job.record.ended());
  CHECK(job.runner.pid() == getpid());
  CHECK(job.state.stopping);
}

TEST_CASE("job driver: what a killed runner leaves is killed before others get its slots") {
  Drive drive;
  drive.driver.adopt();
  SpawnOptions options{.argv = {"sleep", "60"}};
  options.environment =
      environment_with({{"ADAPTDL_CHECKPOINT_PATH", drive.job_folder.checkpoints()}});
  options.new_process_group = true;
  Child left = spawn(options);
  launch::ReplicaRecord record{.generation = 0, .boot_id = boot_id()};
  record.processes = {launch::this_boots_process(left.pid())};
  launch::write_replica_record(drive.job_folder.replicas_file(), record);
  drive.runner("sleep 0.05; kill -9 $$");
  drive.driver.advance();
  REQUIRE(drive.job().state.live);
  // No other runner will come.
  drive.job().state.cancelled = drive.job().record.cancelled = true;
  drive.go_on();
  CHECK(drive.job().record.phase == "Cancelled");
  CHECK(left.wait().value == SIGKILL);
}

TEST_CASE("job driver: a job whose training is finished keeps what its replicas hold, no more") {
  Drive drive;
  drive.write_runner(getpid(), boot_id());
  int scales = 0, answers = 0;
  launch::ControlServer control(drive.job_folder.control_socket(), [&](const Json& request) {
    ++answers;
    scales += request["request"] == "scale" ? 1 : 0;
    return Json{{"replicas", 1}, {"target", 1}, {"slots", {0}}, {"finished", true}};
  });
  drive.driver.adopt();
  ActiveJob& job = drive.job();
  drive.slots.hold("a", {0, 1});
  job.state.granted = {0, 1};
  job.state.wanted = 2;
  job.change = {Monotonic::now(), true};
  drive.jobs.take_changed();
  REQUIRE(soon([&] {
    drive.driver.take_news();
    drive.driver.advance();
    control.serve();
    return answers == 2;
  }));
  CHECK(scales == 0);
  CHECK(job.state.granted == std::vector<int>{0});
  CHECK(job.state.wanted == 1);
  CHECK_FALSE(job.change);
  CHECK(drive.slots.free() == 1);
  CHECK(drive.jobs.take_changed());
  CHECK(job.record.phase == "Running");
}

TEST_CASE("job driver: a runner that is found again learns where the supervisor is now") {
  Drive drive;
  drive.write_runner(getpid(), boot_id());
  std::vector<Json> asked;
  launch::ControlServer control(drive.job_folder.control_socket(), [&](const Json& request) {
    asked.push_back(request);
    if (request["request"] == "status") return Json{{"replicas", 1}, {"target", 1}};
    return Json{{"from", 1}, {"to", 1}};
  });
  drive.driver.adopt();
  REQUIRE(drive.job().state.live);
  drive.job().record.reason = "RunsElsewhere";  // of another machine's service
  const auto scales = [&] {
    return std::count_if(asked.begin(), asked.end(),
                         [](const Json& request) { return request["request"] == "scale"; });
  };
  REQUIRE(soon([&] {
    drive.driver.take_news();
    control.serve();
    return scales() == 1 && asked.back()["request"] == "status";
  }));
  const Json scale = asked.at(asked.size() - 2);
  CHECK(scale["supervisor"] == drive.supervisor.url() + "/j/token");
  CHECK(scale["replicas"] == 1);
  CHECK(scale["slots"] == Json{0});
  CHECK(drive.job().record.reason.empty());
}
