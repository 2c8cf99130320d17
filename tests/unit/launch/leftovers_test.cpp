#include "core/launch/command/leftovers.h"

#include <doctest/doctest.h>
#include <thread>

#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "tests/unit/launch/test_run.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

Child sleeper(const std::string& variable) {
  SpawnOptions options{.argv = {"sleep", "60"}};
  options.environment = environment_with({{"PATH", "/bin:/usr/bin"}, {"MARK", variable}});
  options.new_process_group = true;
  return spawn(options);
}

// In the middle of exec a process shows no environment, though it may have its new name.
void wait_for_exec(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  while (read_file(folder + "/comm", 100) != "sleep\n" ||
         read_file(folder + "/environ", 1 << 20).find("MARK=ours") == std::string::npos) {
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("leftovers: the record comes back, and damage is an empty one") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("replicas.json");
  CHECK(read_replica_record(path).generation == -1);
  write_replica_record(path, {.generation = 4,
                              .boot_id = "b",
                              .job = "default/a",
                              .restartable = true,
                              .processes = {{12, 34}, {56, 78}}});
  const ReplicaRecord record = read_replica_record(path);
  CHECK(record.restartable);
  CHECK(record.generation == 4);
  CHECK(record.boot_id == "b");
  CHECK(record.job == "default/a");
  REQUIRE(record.processes.size() == 2);
  CHECK(record.processes[1].pid == 56);
  CHECK(record.processes[1].start_time == 78);
  for (const char* damaged : {"", "{", "[]", "{\"generation\": 1}", "{\"generation\": \"x\"}"}) {
    write_file_atomic(path, damaged);
    CHECK(read_replica_record(path).processes.empty());
  }
}

TEST_CASE("leftovers: only groups that are known by start or mark are killed") {
  Child ours = sleeper("ours"), other = sleeper("theirs");
  ReplicaRecord record{.generation = 0, .boot_id = boot_id()};
  record.processes = {this_boots_process(ours.pid())};
  ReplicaRecord wrong = record;
  wrong.boot_id = "another";
  CHECK(kill_leftovers(wrong, "MARK=ours", 0.2) == 0);
  wrong = record;
  wrong.processes = {{other.pid(), 1}, {1, 0}, {999999, 5}};
  CHECK(kill_leftovers(wrong, "MARK=theirs", 0.2) == 0);
  CHECK(ours.running());
  CHECK_FALSE(ours.poll());
  CHECK_FALSE(other.poll());
  CHECK(kill_leftovers(record, "MARK=none", 5) == 1);
  CHECK(ours.wait().value == 9);
  CHECK_FALSE(other.poll());
}

TEST_CASE("leftovers: of a launcher that died while it started replicas, found by their marks") {
  SpawnOptions options{.argv = {"sleep", "60"}};
  options.environment = environment_with({{"MARK", "ours"}, {"ADAPTDL_NUM_RESTARTS", "3"}});
  options.new_process_group = true;
  Child child = spawn(options);
  wait_for_exec(child.pid());
  ReplicaRecord record{.generation = 2, .boot_id = boot_id()};
  CHECK(kill_leftovers(record, "MARK=ours", 0.2) == 0);
  record.generation = 3;
  CHECK(kill_leftovers(record, "MARK=theirs", 0.2) == 0);
  record.job = "default/other";  // with the same folder, which the user has named
  CHECK(kill_leftovers(record, "MARK=ours", 0.2) == 0);
  record.job = "";
  CHECK_FALSE(child.poll());
  CHECK(kill_leftovers(record, "MARK=ours", 5) == 1);
  CHECK(child.wait().value == 9);
}

TEST_CASE("leftovers: what a dead leader has left is found by the mark") {
  const TemporaryDirectory folder;
  SpawnOptions options{.argv = {"sh", "-c", "sleep 60 & echo $! > pid; kill -9 $$"}};
  options.environment = environment_with({{"MARK", "ours"}});
  options.directory = folder.path();
  options.new_process_group = true;
  Child leader = spawn(options);
  ReplicaRecord record{.generation = 0, .boot_id = boot_id()};
  record.processes = {this_boots_process(leader.pid())};
  leader.wait();
  const auto left = static_cast<pid_t>(std::stol(read_file(folder.file("pid"), 100)));
  REQUIRE(launch::testing::alive(left));
  wait_for_exec(left);
  CHECK(kill_leftovers(record, "MARK=others", 0.2) == 0);
  CHECK(kill_leftovers(record, "MARK=our", 0.2) == 0);
  REQUIRE(launch::testing::alive(left));
  CHECK(kill_leftovers(record, "MARK=ours", 5) == 1);
  CHECK_FALSE(launch::testing::alive(left));
}
