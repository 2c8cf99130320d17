#include "core/cluster/local/runner/runner_process.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/files.h"
#include "core/base/system.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/runner/run_record.h"
#include "core/cluster/local/runner/runner_query.h"
#include "core/formats/json.h"
#include "core/net/socket.h"

using namespace adaptdl;
using namespace adaptdl::local;

TEST_CASE("a runner's end is read, if it is that runner's") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run.json");
  CHECK(runner_end({folder.path()}, 7).state.empty());
  write_file_atomic(path, R"({"pid":7,"state":"failed","reason":"r","cause":"OutOfMemory",
                              "exit_code":1,"program_exit_code":137,"step":null})");
  const RunnerEnd end = runner_end({folder.path()}, 7);
  CHECK(end.state == "failed");
  CHECK(end.reason == "r");
  CHECK(end.cause == "OutOfMemory");
  CHECK(end.step == 0);
  CHECK(end.exit_code == 1);
  CHECK(end.program_exit_code == 137);
  CHECK(runner_end({folder.path()}, 8).state.empty());
}

TEST_CASE("a job's program may damage what its runner left") {
  const TemporaryDirectory folder;
  for (const char* text : {"", "{", "[]", "7", R"({"pid":"x"})", R"({"pid":7,"state":[]})",
                           R"({"pid":7,"state":"failed","exit_code":1e300})"}) {
    CAPTURE(text);
    write_file_atomic(folder.file("run.json"), text);
    write_file_atomic(folder.file("runner.json"), text);
    CHECK(runner_end({folder.path()}, 7).state.empty());
    CHECK_FALSE(RunnerProcess::find({folder.path()}));
  }
}

TEST_CASE("a runner is found by its number, start and boot, until it is forgotten") {
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& boot, uint64_t start) {
    const Json facts = {{"pid", getpid()}, {"start_time", start}, {"boot_id", boot}};
    write_file_atomic(folder.file("runner.json"), dump_json(facts));
  };
  CHECK_FALSE(last_runner({folder.path()}));
  const uint64_t start = process_start_time(getpid()).value();
  write(boot_id(), start);
  CHECK(RunnerProcess::find({folder.path()}).pid() == getpid());
  CHECK(last_runner({folder.path()})->this_boot);
  write(boot_id(), start + 1);
  CHECK_FALSE(RunnerProcess::find({folder.path()}));
  write("an earlier one", start);
  CHECK_FALSE(RunnerProcess::find({folder.path()}));
  CHECK(last_runner({folder.path()})->pid == getpid());
  CHECK_FALSE(last_runner({folder.path()})->this_boot);
  CHECK(last_runner({folder.path()})->host.empty());
  record_runner({folder.path()});
  CHECK(RunnerProcess::find({folder.path()}).pid() == getpid());
  CHECK(last_runner({folder.path()})->host == host_name());
  forget_runner({folder.path()});
  CHECK_FALSE(last_runner({folder.path()}));
}

TEST_CASE("a runner that cannot be asked is known not to answer at once") {
  const TemporaryDirectory folder;
  const auto over = [](const std::string& socket) {
    RunnerQuery query(socket, {{"request", "status"}}, Seconds(60));
    return query.deadline() <= Monotonic::now() && query.serve() && query.answer().is_null();
  };
  CHECK(over(folder.file("missing")));
  write_file_atomic(folder.file("file"), "");
  CHECK(over(folder.file("file")));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  folder.file("datagrams").copy(name.sun_path, sizeof name.sun_path - 1);
  const Fd other(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(other.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
  CHECK(over(folder.file("datagrams")));
  const Fd listener = listen_unix(folder.file("slow"));
  RunnerQuery query(folder.file("slow"), {{"request", "status"}}, Seconds(60));
  CHECK_FALSE(query.serve());
  CHECK(query.deadline() > Monotonic::now() + std::chrono::seconds(30));
}

TEST_CASE("a submission's folder lives as long as its process") {
  const std::string name = file_name(local_paths().incoming());
  CHECK(is_incoming(name));
  CHECK(submission_lives(name));
  // A deleted job's has none: in a container each service may have the same number.
  CHECK(is_incoming(file_name(local_paths().outgoing())));
  CHECK_FALSE(submission_lives(file_name(local_paths().outgoing())));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(submission_lives(".incoming-" + std::to_string(child) + "-ab"));
  for (const char* other : {".incoming-", ".incoming-x-ab", ".incoming-0-ab", ".incoming--1-ab",
                            "job-1-ab", ".other"}) {
    CAPTURE(other);
    CHECK_FALSE(submission_lives(other));
  }
}

TEST_CASE("slots have the name of their kind") {
  CHECK(slots_text(1, "core") == "1 core");
  CHECK(slots_text(2, "gpu") == "2 GPUs");
  CHECK(slots_text(8, "shared") == "8 slots");
}
