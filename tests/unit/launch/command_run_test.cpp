// Command runs with real processes: shell scripts in the place of a Python program.

#include "core/launch/command/command_run.h"

#include <arpa/inet.h>
#include <chrono>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <map>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <thread>

#include "core/base/error.h"
#include "core/base/program_path.h"
#include "core/base/system.h"
#include "core/launch/command/command_environment.h"
#include "core/launch/command/command_replicas.h"
#include "core/launch/command/leftovers.h"
#include "tests/support/least_of_three.h"
#include "tests/support/soon.h"
#include "tests/unit/launch/test_run.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using adaptdl::launch::testing::alive;
using adaptdl::launch::testing::TestRun;
using adaptdl::testing::least_of_three;
using adaptdl::testing::soon;
using nlohmann::json;

namespace {

// Runs `script` as each replica, in its folder. `trap` it: what a program does on SIGTERM.
struct Script {
  TestRun run;
  CommandOptions options;

  explicit Script(const std::string& script) {
    options.name = "test";
    options.program = "/bin/sh";
    options.arguments = {"-c", script};
    options.directory = run.folder();
    options.checkpoint_dir = run.options.checkpoint_dir;
    options.share_dir = file("share");
    options.log_dir = run.options.log_dir;
    options.control_socket = run.options.control_socket;
    options.record_file = run.options.record_file;
    options.replicas_file = file("replicas.json");
    options.grace_s = 10;
    run.body = [this](const auto& sinks, const Talk& talk) {
      return run_command(options, sinks, talk);
    };
  }
  std::string file(const std::string& name) const { return join_path(run.folder(), name); }
  std::string text(const std::string& name) const { return read_file(file(name), 1 << 20); }
  json record() const { return json::parse(read_file(options.record_file, 1 << 20)); }
  json status() const { return run.request({{"request", "status"}}); }
  void wait_for_file(const std::string& name) const {
    run.wait_for([&](const json&) { return path_exists(file(name)); });
  }
};

// The place of a supervisor, which answers once somebody listens there.
struct Place {
  Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string url;

  Place() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    url = fmt::format("http://127.0.0.1:{}/j/token", ntohs(address.sin_port));
  }
};

// What Python AdaptDL does, in short: goes on from the newest checkpoint, writes one when told.
constexpr const char* kElastic = R"(
  stop() {
    if [ $ADAPTDL_REPLICA_RANK = 0 ]; then
      rm -rf $ADAPTDL_CHECKPOINT_PATH/checkpoint-*
      mkdir $ADAPTDL_CHECKPOINT_PATH/checkpoint-$ADAPTDL_NUM_RESTARTS || exit 1
    fi
    exit 143
  }
  trap stop TERM
  echo run > started-$ADAPTDL_NUM_RESTARTS-$ADAPTDL_REPLICA_RANK-$ADAPTDL_NUM_REPLICAS
  while [ ! -e finish ]; do sleep 0.02; done
)";

}  // namespace

TEST_CASE("command run: a program that is not elastic runs to its end, soon") {
  const auto seconds = [] {
    Script script("");
    script.options.program = "true";
    script.options.arguments.clear();
    script.run.start();
    CHECK(script.run.wait() == 0);
    const json end = script.run.events().back();
    CHECK(end["result"] == "finished");
    CHECK(script.record()["state"] == "finished");
    CHECK(script.record()["exit_code"] == 0);
    CHECK(script.record()["cause"] == nullptr);
    return end["seconds"].get<double>();
  };
  CHECK(least_of_three(5, seconds) < 5);
}

TEST_CASE("command run: the environment is AdaptDL's") {
  Script script("env > env-$ADAPTDL_REPLICA_RANK; grep Cpus_allowed_list /proc/self/status > cpus");
  script.options.replicas = {2, 2, 2};
  script.options.job_namespace = "team-a";
  script.options.environment = {{"MINE", "a b"}, {"ADAPTDL_NUM_REPLICAS", "7"}};
  script.options.tensorboard_dir = "/tb";
  script.run.start();
  CHECK(script.run.wait() == 0);
  const std::string text = "\n" + script.text("env-1");
  for (const std::string& line :
       {std::string("ADAPTDL_NUM_REPLICAS=2"), std::string("ADAPTDL_REPLICA_RANK=1"),
        std::string("ADAPTDL_NUM_NODES=1"), std::string("ADAPTDL_NUM_RESTARTS=0"),
        std::string("ADAPTDL_JOB_ID=team-a/test"), std::string("ADAPTDL_SCHED_VERSION=0.2.11"),
        "ADAPTDL_CHECKPOINT_PATH=" + script.options.checkpoint_dir,
        "ADAPTDL_SHARE_PATH=" + script.options.share_dir,
        std::string("ADAPTDL_TENSORBOARD_LOGDIR=/tb"), std::string("MINE=a b")}) {
    CHECK_MESSAGE(text.find("\n" + line + "\n") != std::string::npos, line);
  }
  CHECK(text.find("\nADAPTDL_SUPERVISOR_URL=") == std::string::npos);
  // The programs' torch.load stays safe.
  CHECK(text.find("\nTORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=") == std::string::npos);
  CHECK(text.find("\nOMP_NUM_THREADS=") != std::string::npos);
  for (const char* name : {"\nno_proxy=", "\nNO_PROXY="}) {
    const size_t at = text.find(name);
    REQUIRE(at != std::string::npos);
    CHECK(text.substr(at, text.find('\n', at + 1) - at).find("127.0.0.1") != std::string::npos);
  }
  const auto port = [&](int rank) {
    const std::string all = script.text("env-" + std::to_string(rank));
    return all.substr(all.find("ADAPTDL_MASTER_PORT=") + 20, 5);
  };
  CHECK(std::stoi(port(0)) >= 20000);
  CHECK(port(0) == port(1));
}

TEST_CASE("command run: the environment is torchrun's") {
  Script script("env > env-$RANK");
  script.options.replicas = {2, 2, 2};
  script.options.max_failures = 5;
  script.options.role = "trainer";
  script.options.run_id = "id-7";
  script.options.environment = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}};
  script.run.start();
  CHECK(script.run.wait() == 0);
  const std::string text = "\n" + script.text("env-1");
  for (const std::string& line :
       {std::string("RANK=1"), std::string("LOCAL_RANK=1"), std::string("GROUP_RANK=0"),
        std::string("ROLE_RANK=1"), std::string("WORLD_SIZE=2"), std::string("LOCAL_WORLD_SIZE=2"),
        std::string("GROUP_WORLD_SIZE=1"), std::string("ROLE_WORLD_SIZE=2"),
        std::string("ROLE_NAME=trainer"), std::string("MASTER_ADDR=127.0.0.1"),
        std::string("TORCHELASTIC_RESTART_COUNT=0"), std::string("TORCHELASTIC_MAX_RESTARTS=5"),
        std::string("TORCHELASTIC_RUN_ID=id-7"), std::string("TORCHELASTIC_USE_AGENT_STORE=False"),
        std::string("TORCH_NCCL_ASYNC_ERROR_HANDLING=0"),
        "TORCHELASTIC_ERROR_FILE=" + script.options.log_dir + "/error-1.json"}) {
    CHECK_MESSAGE(text.find("\n" + line + "\n") != std::string::npos, line);
  }
  const auto value = [&](const std::string& name) {
    const size_t begin = text.find("\n" + name + "=") + name.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  // Python AdaptDL and torch.distributed listen at once.
  CHECK(value("MASTER_PORT") != value("ADAPTDL_MASTER_PORT"));
}

TEST_CASE("command run: on several hosts a replica has a rank on its host, and knows rank 0's") {
  const CommandOptions options;
  const CommandPlace place{.generation = {.replicas = 5, .hosts = 3},
                           .host = {.number = 1, .first_rank = 2, .replicas = 2},
                           .rank = 3,
                           .rank_0 = "node1"};
  std::map<std::string, std::string> values;
  for (const auto& [key, text] : command_environment(options, place, {}, {"proxy.less"})) {
    values[key] = text.value_or("");
  }
  const std::map<std::string, std::string> expected{
      {"RANK", "3"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "3"},
      {"MASTER_ADDR", "node1"},
      {"ADAPTDL_MASTER_ADDR", "node1"},
      {"ADAPTDL_NUM_NODES", "3"},
      {"no_proxy", "proxy.less,127.0.0.1,localhost,node1"}};
  for (const auto& [key, text] : expected) CHECK_MESSAGE(values[key] == text, key);
}

TEST_CASE("command run: the environment's exceptions from a proxy are kept, and extended") {
  CommandOptions options;
  const auto exceptions = [&](const ProxyExceptions& ours) {
    std::map<std::string, std::string> values;
    for (const auto& [key, text] : command_environment(options, {}, {}, ours)) {
      values[key] = text.value_or("");
    }
    return values["no_proxy"] + " " + values["NO_PROXY"];
  };
  CHECK(exceptions({}) == "127.0.0.1,localhost 127.0.0.1,localhost");
  CHECK(exceptions({"a", "b"}) == "a,127.0.0.1,localhost b,127.0.0.1,localhost");
  CHECK(exceptions({{}, "b"}) == "b,127.0.0.1,localhost b,127.0.0.1,localhost");
  CHECK(exceptions({"*"}) == "* *");  // in a list it would mean something else
  options.environment["no_proxy"] = "the.job's";
  CHECK(exceptions({"a", "b"}) == "the.job's,127.0.0.1,localhost b,127.0.0.1,localhost");
}

TEST_CASE("command run: the job's own folder of charts stays where no other is named") {
  CommandOptions options;
  const auto folder = [&] {
    std::string value = "unchanged";
    for (const auto& [key, text] : command_environment(options, {}, {}, {})) {
      if (key == "ADAPTDL_TENSORBOARD_LOGDIR") value = text.value_or("none");
    }
    return value;
  };
  CHECK(folder() == "none");
  options.environment["ADAPTDL_TENSORBOARD_LOGDIR"] = "/mine";
  CHECK(folder() == "/mine");
  options.tensorboard_dir = "/named";
  CHECK(folder() == "/named");
}

TEST_CASE("command run: GPUs that have gone end it") {
  if (!gpus().empty()) return;
  Script script("exit 0");
  script.options.gpus = 1;
  script.options.slots = {0};
  script.run.start();
  CHECK(script.run.wait() == 1);
  CHECK(script.record()["cause"] == "CannotStart");
  CHECK(script.record()["reason"] == "1 GPUs requested, but this machine has 0");
}

TEST_CASE("command run: a fresh start empties its folder") {
  for (const bool fresh : {true, false}) {
    Script script("ls $ADAPTDL_CHECKPOINT_PATH > left");
    make_directories(join_path(script.options.checkpoint_dir, "checkpoint-7/deep"), 0700);
    write_file_atomic(join_path(script.options.checkpoint_dir, "mine"), "");
    CHECK(newest_checkpoint(script.options.checkpoint_dir) == 7);
    script.options.fresh = fresh;
    script.run.start();
    CHECK(script.run.wait() == 0);
    CHECK(script.text("left") == (fresh ? "" : "checkpoint-7\nmine\n"));
  }
}

TEST_CASE("command run: the ranks of a host follow one another, those of the launcher's first") {
  const std::map<int, int> first_of{{4, 4}, {5, 4}, {6, 6}};
  const std::vector<CommandHost> hosts = hosts_of_slots({0, 1, 4, 5, 6}, first_of);
  REQUIRE(hosts.size() == 3);
  const auto is = [&](size_t i, int first_rank, int replicas) {
    return hosts[i].number == static_cast<int>(i) && hosts[i].first_rank == first_rank &&
           hosts[i].replicas == replicas;
  };
  CHECK(is(0, 0, 2));
  CHECK(is(1, 2, 2));
  CHECK(is(2, 4, 1));
  CHECK(hosts_of_slots({0, 4}, first_of).size() == 2);  // fewer than there are slots
}

TEST_CASE("command run: replicas with GPUs of their own are each alone on a node") {
  CommandOptions options;
  options.gpus = 2;
  CommandPlace place{
      .generation = {.replicas = 2}, .host = {.replicas = 2}, .rank = 1, .slots = {1}};
  const Variables variables = command_environment(options, place, {"a", "b"}, {});
  const auto value = [&](const char* name) {
    for (const auto& [key, text] : variables) {
      if (key == name) return text.value_or("");
    }
    return std::string("none");
  };
  CHECK(value("CUDA_VISIBLE_DEVICES") == "b");
  CHECK(value("LOCAL_RANK") == "0");
  CHECK(value("LOCAL_WORLD_SIZE") == "1");
  CHECK(value("GROUP_RANK") == "1");
  CHECK(value("GROUP_WORLD_SIZE") == "2");
  CHECK(value("RANK") == "1");
}

TEST_CASE("command run: with a virtual local rank each replica sees the GPU of its rank") {
  CommandOptions options;
  options.virtual_local_rank = true;
  const auto of_rank = [&](int rank) {
    std::string local_rank, gpus;
    const CommandPlace place{.generation = {.replicas = 2}, .host = {.replicas = 2}, .rank = rank};
    for (const auto& [key, text] : command_environment(options, place, {}, {})) {
      if (key == "LOCAL_RANK") local_rank = text.value_or("");
      if (key == "CUDA_VISIBLE_DEVICES") gpus = text.value_or("");
    }
    return local_rank + " " + gpus;
  };
  CHECK(of_rank(1) == "0 1");
  options.environment["CUDA_VISIBLE_DEVICES"] = "GPU-a,GPU-b";
  CHECK(of_rank(1) == "0 GPU-b");
  CHECK_THROWS_WITH_AS(of_rank(2), doctest::Contains("replica 2 has no GPU"), Error);
  options.environment["CUDA_VISIBLE_DEVICES"] = "";
  CHECK(of_rank(1) == "0 ");
}

TEST_CASE("command run: who ends with 0 when asked to restart is told to exit with 143") {
  Script script("trap 'exit 0' TERM; echo > running; while :; do sleep 0.02; done");
  script.options.replicas = {1, 1, 2};
  script.run.start();
  script.wait_for_file("running");
  script.run.request({{"request", "scale"}, {"replicas", 2}});
  CHECK(script.run.wait() == 0);
  const std::string reason = script.run.events().back()["reason"];
  CHECK(reason ==
        "the replica exited with 0 when asked to restart (rescaling from 1 to 2 replicas): taken "
        "for finished; save and exit with 143 to be restarted");
  CHECK(script.record()["reason"] == reason);
  CHECK(script.record()["restartable"] == false);
}

TEST_CASE("command run: a program that has restarted is known for it, also by the next launcher") {
  Script script(kElastic);
  script.options.replicas = {1, 1, 2};
  script.run.start();
  script.wait_for_file("started-0-0-1");
  CHECK(script.status()["restartable"] == false);
  script.run.request({{"request", "cancel"}, {"checkpoint", true}});
  CHECK(script.run.wait() == 143);
  CHECK(script.record()["restartable"] == true);
  script.run.start();
  script.wait_for_file("started-1-0-1");
  CHECK(script.status()["restartable"] == true);
  write_file_atomic(script.file("finish"), "");
  CHECK(script.run.wait() == 0);
}

TEST_CASE("command run: the first error is told, and its code is the run's if wanted") {
  // Replica 1 fails; 0 then loses the connection, and is gone earlier. On a busy machine 1 is asked
  // to end before it has.
  Script script(R"(
    echo "attempt $TORCHELASTIC_RESTART_COUNT"
    if [ $RANK = 0 ]; then
      while [ ! -e gone-$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.01; done
      echo "RuntimeError: Connection closed by peer"; exit 1
    fi
    trap '' TERM
    printf %s '{"message": {"message": "ValueError: odd", "extraInfo": {"py_callstack":
      "Traceback:\n  line 7", "timestamp": "100"}}}' > $TORCHELASTIC_ERROR_FILE
    touch gone-$TORCHELASTIC_RESTART_COUNT; sleep 0.03; exit 9)");
  script.options.replicas = {2, 2, 2};
  script.options.max_failures = 1;
  script.options.program_exit = true;
  script.run.start();
  CHECK(script.run.wait() == 9);
  const auto failures = script.run.events("failure");
  REQUIRE(failures.size() == 2);
  CHECK(failures[0]["member"] == 1);
  CHECK(failures[0]["reason"] == "exit code 9: ValueError: odd");
  CHECK(failures[0]["next"] != "");
  CHECK(failures[1]["next"] == "");
  const std::string reason = script.record()["reason"];
  CHECK(reason.find("Replica 1 failed first: exit code 9: ValueError: odd") != std::string::npos);
  CHECK(reason.find("line 7") != std::string::npos);
  CHECK(reason.find("replica 0: exit code 1") != std::string::npos);
  CHECK(script.record()["exit_code"] == 9);
  CHECK(read_file(join_path(script.options.log_dir, "replica-0.log"), 1 << 20).find("attempt 1") !=
        std::string::npos);
}

TEST_CASE("command run: what cannot be executed ends the run as a shell would") {
  for (const bool wanted : {true, false}) {
    Script script("");
    write_file_atomic(script.file("headless"), "exit 0\n", 0700);
    script.options.program = "./headless";
    script.options.program_exit = wanted;
    script.run.start();
    CHECK(script.run.wait() == (wanted ? 126 : 1));
    CHECK(script.record()["cause"] == "CannotStart");
  }
}

TEST_CASE("command run: a folder may have been claimed for it") {
  Script script("true");
  auto file = claim_replicas_file(script.options.replicas_file);
  REQUIRE(file);
  CHECK_FALSE(claim_replicas_file(script.options.replicas_file));
  script.options.claimed = std::make_shared<ReplicasFile>(*std::move(file));
  script.run.start();
  CHECK(script.run.wait() == 0);
}

TEST_CASE("command run: what the replicas print is shown with their ranks, and kept") {
  Script script("echo out; echo err >&2; printf last");
  script.options.replicas = {2, 2, 2};
  const Fd out = open_file(script.file("out"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const Fd err = open_file(script.file("err"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ConsoleOptions console;
  console.out = out.get();
  console.err = err.get();
  script.options.console = console;
  script.run.start();
  CHECK(script.run.wait() == 0);
  const std::string text = script.text("out");
  for (const char* line : {"[default0]:out\n", "[default1]:out\n", "[default1]:last\n"}) {
    CHECK_MESSAGE(text.find(line) != std::string::npos, text);
  }
  CHECK(script.text("err").find("[default0]:err\n") != std::string::npos);
  const std::string log = read_file(join_path(script.options.log_dir, "replica-1.log"), 1 << 20);
  CHECK(log.find("out\n") != std::string::npos);
  CHECK(log.find("err\n") != std::string::npos);
}

TEST_CASE("command run: rescaled through checkpoints, stopped, and started again") {
  Script script(kElastic);
  script.options.replicas = {1, 1, 4};
  if (available_cores() > 1) script.options.slots = {0};
  script.run.start();
  script.wait_for_file("started-0-0-1");
  json wish = {{"request", "scale"}, {"replicas", 2}};
  if (available_cores() > 1) wish["slots"] = {0, 1};
  CHECK(script.run.request(wish)["from"] == 1);
  script.wait_for_file("started-1-1-2");
  script.wait_for_file("started-1-0-2");
  const json status = script.status();
  CHECK(status["generation"] == 1);
  CHECK(status["members"].size() == 2);
  CHECK(status["step"].is_null());
  if (available_cores() > 1) CHECK(status["slots"] == json{0, 1});
  script.run.signal(SIGTERM);
  CHECK(script.run.wait() == 143);
  CHECK(script.record()["state"] == "stopped");
  CHECK(script.record()["checkpoint"] == true);
  CHECK(path_exists(join_path(script.options.checkpoint_dir, "checkpoint-1")));

  script.run.start();
  script.wait_for_file("started-2-0-1");
  CHECK_THROWS_AS(script.run.request({{"request", "scale"}, {"replicas", 0}}), Error);
  write_file_atomic(script.file("finish"), "");
  CHECK(script.run.wait() == 0);
  CHECK(script.run.events("failure").empty());
}

TEST_CASE(
    "command run: kill -9 of it takes the replicas along, and what is left goes at the start") {
  // The helper has a group's number, and no parent that would take it along.
  Script script("sleep 60 & echo $! > helper.tmp; mv helper.tmp helper; wait");
  script.run.start();
  script.wait_for_file("helper");
  const auto pids = script.run.members();
  REQUIRE(pids.size() == 1);
  const auto helper = static_cast<pid_t>(std::stol(script.text("helper")));
  script.run.wait_for([&](const json&) { return path_exists(script.options.replicas_file); });
  script.run.wait_for([](const json& event) { return event["event"] == "generation"; });
  script.run.signal(SIGKILL);
  CHECK(script.run.wait() == 1009);
  CHECK(soon([&] { return !alive(pids[0].second); }));
  CHECK(alive(helper));
  script.options.arguments = {"-c", "echo $ADAPTDL_NUM_RESTARTS > generation"};
  script.run.start();
  CHECK(script.run.wait() == 0);
  CHECK_FALSE(alive(helper));
  CHECK(script.text("generation") == "1\n");
}

TEST_CASE("command run: a failure is told with its last words, and tried again") {
  Script script("if [ $ADAPTDL_NUM_RESTARTS = 0 ]; then echo no hat; exit 3; fi");
  script.run.start();
  CHECK(script.run.wait() == 0);
  const auto failures = script.run.events("failure");
  REQUIRE(failures.size() == 1);
  CHECK(failures[0]["exit_code"] == 3);
  CHECK(failures[0]["log"] == json{"no hat"});

  Script hopeless("echo never; exit 4");
  hopeless.options.max_failures = 0;
  hopeless.run.start();
  CHECK(hopeless.run.wait() == 1);
  CHECK(hopeless.record()["state"] == "failed");
  CHECK(hopeless.record()["cause"] == "ReplicaFailed");
  const std::string reason = hopeless.record()["reason"];
  CHECK(reason.find("exit code 4") != std::string::npos);
  CHECK(reason.find("never") != std::string::npos);

  Script missing("");
  missing.options.program = "./no-such-program";
  missing.run.start();
  CHECK(missing.run.wait() == 1);
  CHECK(std::string(missing.record()["reason"]).find("no-such-program") != std::string::npos);
  CHECK(missing.record()["cause"] == "CannotStart");
}

// A program that cannot restore its checkpoint while torch.load refuses pickles.
constexpr const char* kRefused = R"(
  echo "start with '$TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'" >> starts
  [ "$TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" != 1 ] || exit $ENDS
  echo 'Traceback (most recent call last):
  File "/lib/adaptdl/checkpoint.py", line 1, in load_state
  File "/lib/torch/serialization.py", line 2, in load
_pickle.UnpicklingError: Weights only load failed.' >&2
  exit 1
)";

TEST_CASE("command run: AdaptDL's own checkpoint may be a pickle, which is told and no failure") {
  Script script(kRefused);
  script.options.max_failures = 0;
  script.options.environment = {{"ENDS", "0"}};
  script.run.start();
  CHECK(script.run.wait() == 0);
  CHECK(script.text("starts") == "start with ''\nstart with '1'\n");
  const auto told = [&](const json& event) {
    return event["event"] == "failure" &&
           event["next"] == "all replicas restart with TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1";
  };
  const auto& events = script.run.events();
  CHECK(std::count_if(events.begin(), events.end(), told) == 1);
  script.run.start();  // the next launcher knows it
  CHECK(script.run.wait() == 0);
  CHECK(script.text("starts") == "start with ''\nstart with '1'\nstart with '1'\n");
}

TEST_CASE("command run: pickles are allowed once, and never against the user") {
  Script script(kRefused);
  script.options.max_failures = 0;
  SUBCASE("it fails again") {
    script.options.environment = {{"ENDS", "3"}};
    script.run.start();
    CHECK(script.run.wait() == 1);
    CHECK(script.text("starts") == "start with ''\nstart with '1'\n");
  }
  SUBCASE("the user has said no") {
    script.options.environment = {{"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0"}};
    script.run.start();
    CHECK(script.run.wait() == 1);
    CHECK(script.text("starts") == "start with '0'\n");
  }
}

TEST_CASE("command run: 143 unasked and without a checkpoint is how the program failed") {
  Script script("exit 143");
  script.options.max_failures = 0;
  script.run.start();
  CHECK(script.run.wait() == 1);
  CHECK(script.record()["state"] == "failed");
  CHECK(script.record()["program_exit_code"] == 143);
  CHECK(script.record()["cause"] == "ReplicaFailed");
}

TEST_CASE("command run: who does not listen is killed with all it has started") {
  Script script(
      "trap '' TERM; (trap '' TERM; sleep 60) & echo $! > helper.tmp; "
      "mv helper.tmp helper; while :; do sleep 0.1; done");
  script.options.grace_s = 0.3;
  script.run.start();
  script.wait_for_file("helper");
  const auto helper = static_cast<pid_t>(std::stol(script.text("helper")));
  script.run.request({{"request", "cancel"}});
  CHECK(script.run.wait() == 143);
  CHECK(script.record()["state"] == "cancelled");
  CHECK(soon([&] { return !alive(helper); }));
}

TEST_CASE("command run: a shell that dies of the signal leaves the program its time") {
  // The program is not the shell's last command, so that the shell does not become it; and as a
  // background process it ignores SIGINT.
  for (const std::string after : {"; echo over", "& wait"}) {
    for (const int number : {SIGTERM, SIGINT}) {
      Script script(std::string("sh -c '") + kElastic + "'" + after);
      script.run.start();
      script.wait_for_file("started-0-0-1");
      script.run.signal(number);
      CHECK(script.run.wait() == 128 + number);
      CHECK(path_exists(join_path(script.options.checkpoint_dir, "checkpoint-0")));
    }
  }
}

TEST_CASE("command run: Ctrl-C reaches a program that knows no SIGTERM as Ctrl-C") {
  const ProgramPath python =
      find_in_path("python3", environment_variable("PATH").value_or("/usr/bin:/bin"));
  if (!python.executable) return;
  constexpr const char* kProgram = R"(
import time
try:
    open("running", "w").close()
    while True: time.sleep(0.02)
except KeyboardInterrupt:
    open("interrupted", "w").close()
    raise)";
  for (const bool in_shell : {false, true}) {
    Script script("\"$0\" -c \"$1\"; exit $?");
    script.options.arguments.insert(script.options.arguments.end(), {python.path, kProgram});
    if (!in_shell) {
      script.options.program = python.path;
      script.options.arguments = {"-c", kProgram};
    }
    script.run.start();
    script.wait_for_file("running");
    script.run.signal(SIGINT);
    CHECK(script.run.wait() == 130);
    CHECK(path_exists(script.file("interrupted")));
    CHECK(script.run.events("failure").empty());
    CHECK(script.record()["state"] == "stopped");
  }
}

TEST_CASE("command run: a program that saves on SIGTERM gets that, also of Ctrl-C") {
  Script script(kElastic);
  script.run.start();
  script.wait_for_file("started-0-0-1");
  script.run.signal(SIGINT);
  CHECK(script.run.wait() == 130);
  CHECK(path_exists(join_path(script.options.checkpoint_dir, "checkpoint-0")));
  CHECK(script.run.events("failure").empty());
}

TEST_CASE("command run: the two signals of timeout(1) are one wish, and leave time to save") {
  Script script(kElastic);
  script.run.start();
  script.wait_for_file("started-0-0-1");
  script.run.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  script.run.signal(SIGTERM);
  CHECK(script.run.wait() == 143);
  CHECK(path_exists(join_path(script.options.checkpoint_dir, "checkpoint-0")));
}

TEST_CASE("command run: a program may remove the folder of its checkpoints") {
  Script script("rm -r $ADAPTDL_CHECKPOINT_PATH");
  script.run.start();
  CHECK(script.run.wait() == 0);
  CHECK(script.record()["state"] == "finished");
  CHECK(script.record()["checkpoint"] == false);
}

TEST_CASE("command run: waits for the supervisor, and says so") {
  const Place supervisor;
  const Fd& listener = supervisor.socket;
  Script script("env > env");
  script.options.supervisor_url = supervisor.url;
  script.run.start();
  script.run.wait_for([&](const json&) {
    return std::string(script.status()["reason"]).find("supervisor") != std::string::npos;
  });
  CHECK_FALSE(path_exists(script.file("env")));
  REQUIRE(listen(listener.get(), 5) == 0);
  CHECK(script.run.wait() == 0);
  CHECK(script.text("env").find("ADAPTDL_SUPERVISOR_URL=" + script.options.supervisor_url + "\n") !=
        std::string::npos);
  for (const char* wrong : {"", "ftp://x:1", "http://", "http://x:0", "http://x:many"}) {
    CHECK_THROWS_AS(answers(wrong), Error);
  }
}

TEST_CASE("command run: a supervisor that moves is told to the next generation") {
  const Place before, after;
  REQUIRE(listen(before.socket.get(), 5) == 0);
  REQUIRE(listen(after.socket.get(), 5) == 0);
  Script script(
      "echo $ADAPTDL_SUPERVISOR_URL > at-$WORLD_SIZE; trap 'exit 143' TERM;"
      "until test -e finish; do sleep 0.02; done");
  script.options.replicas = {1, 1, 2};
  script.options.supervisor_url = before.url;
  script.run.start();
  script.run.wait_for([&](const json&) {
    return path_exists(script.file("at-1")) && script.text("at-1") == before.url + "\n";
  });
  const auto scale = [&](int replicas, const std::string& supervisor) {
    return script.run.request(
        {{"request", "scale"}, {"replicas", replicas}, {"supervisor", supervisor}});
  };
  CHECK_THROWS_AS(scale(2, "nowhere"), Error);
  scale(1, after.url);  // which restarts nothing
  scale(2, "");
  script.run.wait_for([&](const json&) {
    return path_exists(script.file("at-2")) && script.text("at-2") == after.url + "\n";
  });
  CHECK(script.status()["generation"] == 1);
  write_file_atomic(script.file("finish"), "");
  CHECK(script.run.wait() == 0);
}

TEST_CASE("command run: ports are reserved one by one") {
  const ReservedPort one = reserve_port(), two = reserve_port();
  CHECK(one.number != two.number);
}
