// The real launcher with real processes.

#include "core/launch/run/run.h"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/launch/command/command_environment.h"
#include "core/launch/hosts/agent.h"
#include "tests/support/least_of_three.h"
#include "tests/support/soon.h"
#include "tests/unit/launch/test_run.h"

using namespace adaptdl;
using namespace adaptdl::launch;
using adaptdl::launch::testing::alive;
using adaptdl::launch::testing::steps_complete;
using adaptdl::launch::testing::TestRun;
using adaptdl::testing::least_of_three;
using adaptdl::testing::soon;
using nlohmann::json;

namespace {

void worker(TestRun& run, const std::vector<std::string>& arguments) {
  for (const auto& argument : arguments) run.options.arguments.push_back(argument);
}

std::vector<std::string> causes(const TestRun& run) {
  std::vector<std::string> result;
  for (const auto& event : run.events("generation")) result.push_back(event["cause"]);
  return result;
}

json last_event(const TestRun& run) {
  const auto events = run.events();
  return events.empty() ? json::object() : events.back();
}

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

}  // namespace

TEST_CASE("run: parse_replicas") {
  const auto check = [](const std::string& text, int min, int initial, int max) {
    const ReplicaBounds bounds = parse_replicas(text, 4);
    CHECK(bounds.min == min);
    CHECK(bounds.initial == initial);
    CHECK(bounds.max == max);
  };
  check("3", 3, 3, 3);
  check("1:3", 1, 3, 3);
  check("2:2", 2, 2, 2);
  check("auto", 1, 4, 4);
  CHECK(parse_replicas("auto", 0).max == 1);
  for (const char* wrong : {"", "0", "-1", "2:1", "1:", ":2", "1:2:3", "all", "1.5", " 1", "1025",
                            "99999999999999999999", "0:1"}) {
    CHECK_THROWS_AS(parse_replicas(wrong, 4), UsageError);
  }
}

TEST_CASE("run: grows and shrinks at steps, finishes, and knows it") {
  TestRun run;
  run.options.replicas = {1, 1, 1};
  run.options.replicas_at = {{20, 3}, {100, 2}};
  worker(run, {"steps=250", "kinds=1", "gather=3"});
  run.start();
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  CHECK(steps_complete(run.events("step"), 1, 250));
  CHECK(run.events().front()["event"] == "start");
  const json end = run.events().back();
  CHECK(end["event"] == "end");
  CHECK(end["result"] == "finished");
  CHECK(end["steps"] == 250);
  CHECK(end["model"] == run.options.output_dir);
  const auto rescales = run.events("rescale");
  REQUIRE(rescales.size() >= 2);
  CHECK(end["rescales"] == rescales.size());
  CHECK(rescales.front()["from"] == 1);
  CHECK(rescales.front()["cause"] == "replicas-at");
  CHECK(rescales.back()["from"] == 3);
  CHECK(rescales.back()["to"] == 2);
  const auto generations = run.events("generation");
  CHECK(generations.front()["immediate"] == true);
  CHECK(generations.back()["immediate"] == false);
  CHECK(generations.back()["members"] == json({0, 1}));  // the newest went
  CHECK(generations.front()["accelerator"] == "kind-0");
  CHECK(generations.back()["accelerator"] == "kind-0+kind-1");
  double time = 0;
  for (const auto& event : run.events()) {
    CHECK(event["time_s"] >= time);
    time = event["time_s"];
  }
  CHECK(read_file(run.options.log_dir + "/replica-0.log", 4096) == "member 0 here\n");

  replace_file(run.options.record_file, "{}");  // a full disk kept it from being written
  run.start();                                  // once more: it has finished
  const pid_t pid = run.pid();
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  CHECK(run.talk().find("has finished") != std::string::npos);
  REQUIRE(run.events().size() == 1);
  CHECK(run.events()[0]["already"] == true);
  const json record = json::parse(read_file(run.options.record_file, 1 << 20));
  CHECK(record["state"] == "finished");
  CHECK(record["pid"] == pid);

  run.options.fresh = true;
  run.options.settings = {"optimizer.lr=1"};
  run.options.replicas_at.clear();
  run.options.arguments.pop_back();  // one replica alone
  run.start();
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  CHECK(steps_complete(run.events("step"), 1, 250));
}

TEST_CASE("run: kill -9 of any member costs no finished step") {
  TestRun run;
  run.options.replicas = {3, 3, 3};
  worker(run, {"steps=100000"});
  run.start();
  for (const size_t index : {0, 1, 2}) {
    run.wait_for([&](const json& e) {
      return e["event"] == "generation" && e["replicas"] == 3 && e["generation"] >= 1 + 2 * index;
    });
    // A generation is told of once its first member trains.
    CHECK(soon([&] { return run.members().size() == 3; }));
    sleep_ms(50);
    const auto members = run.members();
    REQUIRE(members.size() == 3);
    ::kill(members[index].second, SIGKILL);
    run.wait_for([&](const json& e) {
      return e["event"] == "failure" && e["member"] == members[index].first;
    });
  }
  run.wait_for([](const json& e) {
    return e["event"] == "generation" && e["replicas"] == 3 && e["generation"] >= 7;
  });
  run.signal(SIGTERM);
  REQUIRE_MESSAGE(run.wait() == 143, run.talk());
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
  const auto failures = run.events("failure");
  REQUIRE(failures.size() == 3);
  for (const auto& failure : failures) {
    CHECK(failure["signal"] == SIGKILL);
    CHECK(failure["exit_code"].is_null());
    CHECK(failure["next"] == "2 of 3 continue, a replacement is started");
  }
  const auto list = causes(run);
  CHECK(std::count(list.begin(), list.end(), "death") == 3);
  CHECK(std::count(list.begin(), list.end(), "replacement") == 3);
}

TEST_CASE("run: SIGTERM to one replica lets it go and brings another") {
  TestRun run;
  run.options.replicas = {1, 2, 2};
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(20);
  const auto members = run.members();
  REQUIRE(members.size() == 2);
  ::kill(members[0].second, SIGTERM);
  run.wait_for([](const json& e) { return e["event"] == "rescale" && e["cause"] == "leave"; });
  run.wait_for(
      [](const json& e) { return e["event"] == "rescale" && e["cause"] == "replacement"; });
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  CHECK(run.events("failure").empty());
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
  CHECK(run.events("generation").back()["members"] == json({1, 2}));
}

TEST_CASE("run: SIGTERM to the only replica hands over through a checkpoint") {
  TestRun run;
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(20);
  ::kill(run.members().at(0).second, SIGTERM);
  run.wait_for(
      [](const json& e) { return e["event"] == "generation" && e["members"] == json({1}); });
  const json resume = run.wait_for([](const json& e) { return e["event"] == "resume"; });
  run.wait_for_step(resume["step"].get<int64_t>() + 5);
  run.request({{"request", "cancel"}, {"checkpoint", false}});
  REQUIRE(run.wait() == 143);
  CHECK(last_event(run)["checkpoint"] == false);  // that one is not of the end
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
}

TEST_CASE("run: SIGTERM writes a checkpoint; the same command goes on from it") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  worker(run, {"steps=1500", "checkpoint=100000"});
  run.start();
  run.wait_for_step(30);
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  const auto steps = run.events("step");
  const int64_t last = steps.back()["step"];
  CHECK(last_event(run)["result"] == "stopped");
  CHECK(last_event(run)["checkpoint"] == true);
  run.options.settings = {"optimizer.lr=1"};
  run.options.effective_settings = {{"optimizer.lr", "1"}, {"epochs", "3 epochs"}};
  run.start();
  run.wait_for_step(last + 10);
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  CHECK(run.talk().find("changed since the last run: settings: none -> [\"optimizer.lr=1\"]") !=
        std::string::npos);
  // Of an archive, setting by setting.
  run.options.effective_settings = {{"optimizer.lr", "2"}, {"epochs", "3 epochs"}, {"seed", "4"}};
  run.start();
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  for (const char* change : {"optimizer.lr: 1 -> 2", "seed: none -> 4"}) {
    CHECK(run.talk().find(std::string("changed since the last run: ") + change) !=
          std::string::npos);
  }
  CHECK(run.talk().find("run: epochs") == std::string::npos);
  CHECK(
      steps_complete(run.events("step"), run.events("resume")[0]["step"].get<int64_t>() + 1, 1500));
  CHECK(run.events("resume").size() == 1);
}

TEST_CASE("run: a finished run tells whether a checkpoint of its end was written") {
  const auto told = [](std::vector<std::string> arguments) {
    TestRun run;
    arguments.push_back("steps=5");
    worker(run, arguments);
    run.start();
    REQUIRE_MESSAGE(run.wait() == 0, run.talk());
    const bool recorded = json::parse(
        read_file(join_path(run.options.checkpoint_dir, "run.json"), 1 << 16))["checkpoint"];
    CHECK(last_event(run)["checkpoint"] == recorded);
    return recorded;
  };
  CHECK(told({}));
  CHECK_FALSE(told({"full=1"}));
  CHECK_FALSE(told({"old=1"}));  // it does not say
}

TEST_CASE("run: a program that does not say so has written a checkpoint when it was stopped") {
  TestRun run;
  worker(run, {"steps=100000", "old=1"});
  run.start();
  run.wait_for_step(3);
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  CHECK(last_event(run)["checkpoint"] == true);
}

TEST_CASE("run: --fresh removes what is ours from the folder of checkpoints, and nothing else") {
  TestRun run;
  const std::string folder = run.options.checkpoint_dir;
  const auto path = [&](const char* name) { return join_path(folder, name); };
  const std::vector<const char*> ours = {"step-000000000777", ".partial-abcdef",
                                         ".partial-abcdef.old", ".run.json.tmp-0123456789ab"};
  const std::vector<const char*> others = {"step-5", "step-0000000007770", "step-00000000777x",
                                           "data", ".hidden"};
  for (const bool known : {false, true}) {  // whether the folder has a record of an earlier run
    CAPTURE(known);
    for (const char* name : ours) make_directories(path(name));
    for (const char* name : others) make_directories(path(name));
    write_file_atomic(path("notes.txt"), "mine");
    run.options.fresh = true;
    run.options.arguments.resize(1);
    worker(run, {"steps=20", "checkpoint=100000"});
    run.start();
    REQUIRE_MESSAGE(run.wait() == 0, run.talk());
    for (const char* name : ours) CHECK_MESSAGE(!path_exists(path(name)), name);
    for (const char* name : others) CHECK_MESSAGE(path_exists(path(name)), name);
    CHECK(read_file(path("notes.txt"), 100) == "mine");
  }
}

TEST_CASE("run: what the program does after its training belongs to the run") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.grace_s = 0.2;
  worker(run, {"steps=20", "after=1000:0"});
  const auto end_after = [&](const std::string& after, bool own_main) {
    run.options.arguments.back() = "after=" + after;
    run.options.own_main = own_main;
    run.options.fresh = true;
    run.start();
    const int code = run.wait();
    return std::pair(code, last_event(run));
  };
  auto [code, end] = end_after("1000:0", true);
  CHECK(code == 0);
  CHECK(end["result"] == "finished");
  CHECK(end["time_s"] > 1);  // longer than the grace

  std::tie(code, end) = end_after("0:7", true);
  CHECK(code == 7);
  CHECK(end["result"] == "failed");
  CHECK(end["model"] == run.options.output_dir);
  const std::string reason = end["reason"];
  CHECK(reason.find("the program failed after its training: exit code 7") == 0);
  CHECK(reason.find("member 0 here") != std::string::npos);
  CHECK(run.events("generation").size() == 1);  // nothing starts again

  std::tie(code, end) = end_after("60000:7", false);  // one of ours: it should have ended
  CHECK(code == 0);
  CHECK(end["result"] == "finished");

  run.options.arguments.back() = "after=60000:0";
  run.options.own_main = true;
  run.start();
  run.wait_for_step(20);
  const auto goes_on = [&] { return run.request({{"request", "status"}})["reason"] == "finished"; };
  REQUIRE(soon(goes_on));
  const json status = run.request({{"request", "status"}});
  CHECK(status["finished"] == true);
  CHECK(status["replicas"] == status["members"].size());
  CHECK(status["target"] == status["replicas"]);
  CHECK(status["members"][0]["state"] == "finished");
  CHECK_THROWS_WITH_AS(run.request({{"request", "scale"}, {"replicas", 1}}),
                       doctest::Contains("its training is finished"), Error);
  run.signal(SIGINT);
  CHECK(run.wait() == 130);
  CHECK(last_event(run)["result"] == "stopped");
  CHECK(last_event(run)["reason"] == "the program was ended after its training");

  run.start();
  run.wait_for_step(20);
  REQUIRE(soon(goes_on));
  CHECK(run.request({{"request", "cancel"}})["checkpoint"] == false);
  CHECK(run.wait() == 143);
  CHECK(last_event(run)["result"] == "cancelled");
}

TEST_CASE("run: a second SIGINT skips the checkpoint") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.grace_s = 120;  // far more than is waited for below
  worker(run, {"steps=100000", "checkpoint=100000"});
  run.start();
  run.wait_for_step(10);
  const auto members = run.members();
  ::kill(members[0].second, SIGSTOP);  // so that no checkpoint can be agreed on
  run.signal(SIGINT);
  // Two signals that come before it has taken the first are one.
  CHECK(soon([&] { return run.request({{"request", "status"}})["reason"] == "stopped"; }));
  sleep_ms(200);
  CHECK(alive(run.pid()));
  run.signal(SIGINT);
  CHECK(run.wait(30) == 130);
  CHECK(last_event(run)["checkpoint"] == false);
  for (const auto& [id, pid] : members) CHECK_FALSE(alive(pid));
}

TEST_CASE("run: the two signals of timeout(1) are one wish, and leave time for the checkpoint") {
  // The seconds within which a run took both. If more than 1 they may be two wishes.
  const auto two_signals = [] {
    TestRun run;
    run.options.replicas = {2, 2, 2};
    run.options.grace_s = 120;
    worker(run, {"steps=100000", "checkpoint=100000"});
    run.start();
    run.wait_for_step(10);
    const auto members = run.members();
    ::kill(members[0].second, SIGSTOP);  // so that the run is there for both
    const TimePoint begun = Monotonic::now();
    run.signal(SIGTERM);
    sleep_ms(50);
    run.signal(SIGTERM);
    const auto stops = [&] { return run.request({{"request", "status"}})["reason"] == "stopped"; };
    bool stopped = false;
    try {
      stopped = soon(stops) && stops();  // it takes signals between two requests
    } catch (const Error&) {             // it has ended
    }
    const double took = seconds_since(begun);
    ::kill(members[0].second, SIGCONT);
    const int code = run.wait();
    if (took < 1) {
      CHECK(stopped);
      CHECK(code == 143);
      CHECK(last_event(run)["checkpoint"] == true);
    }
    return took;
  };
  CHECK(least_of_three(1, two_signals) < 1);
}

TEST_CASE("run: all dying starts again from the checkpoint") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  worker(run, {"steps=100000", "checkpoint=10"});
  run.start();
  run.wait_for_step(35);
  for (const auto& [id, pid] : run.members()) ::kill(pid, SIGKILL);
  const json resume = run.wait_for([](const json& e) { return e["event"] == "resume"; });
  run.wait_for_step(resume["step"].get<int64_t>() + 30);
  run.signal(SIGTERM);
  REQUIRE_MESSAGE(run.wait() == 143, run.talk());
  const auto list = causes(run);
  CHECK(std::count(list.begin(), list.end(), "restart") == 1);
  int64_t before = 0, jumps = 0;
  for (const auto& step : run.events("step")) {
    if (step["step"] != before + 1) {
      ++jumps;
      CHECK(step["step"] < before + 1);
      CHECK(step["step"] > before - 10);
    }
    before = step["step"];
  }
  CHECK(before >= resume["step"].get<int64_t>() + 30);
  CHECK(jumps <= 1);
}

TEST_CASE("run: dying again and again without a finished step ends the run") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.max_restarts = 2;
  worker(run, {"steps=200", "checkpoint=10", "die=*:15"});
  run.start();
  REQUIRE(run.wait() == 1);
  CHECK(last_event(run)["result"] == "failed");
  CHECK(last_event(run)["reason"].get<std::string>().starts_with("replica "));
  CHECK(run.talk().find("dies before step 15") != std::string::npos);
  CHECK(run.talk().find("breakdowns in a row") != std::string::npos);
  CHECK(run.events("failure").size() >= 3);
}

TEST_CASE("run: newcomers that do not come stop nobody") {
  for (const char* how : {"silent=1", "crash=1", "garbage=1", "fatal=1"}) {
    CAPTURE(how);
    TestRun run;
    run.options.replicas = {1, 1, 2};
    run.options.replicas_at = {{10, 2}};
    // Silence ends by this; those that do come need not be fast. The others fail when they are let
    // go: after some steps, unless the run waits for them.
    if (how == std::string("silent=1")) {
      run.options.start_timeout_s = 5;
    } else {
      worker(run, {"held=1"});
    }
    worker(run, {"steps=100000", how});
    run.start();
    run.wait_for_step(30);
    write_file_atomic(join_path(run.folder(), "go"), "");
    const auto fails = [](const json& e) { return e["event"] == "failure" && e["member"] == 1; };
    run.wait_for(fails);
    run.wait_for([](const json& e) { return e["event"] == "rescale" && e["to"] == 2; });
    run.signal(SIGTERM);
    REQUIRE(run.wait() == 143);
    CHECK(run.events("generation").back()["members"] == json({0, 2}));
    const auto steps = run.events("step");
    CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
    const auto events = run.events();
    const auto failed = std::ranges::find_if(events, fails);
    CHECK(std::count_if(events.begin(), failed, [](const json& e) {
            return e["event"] == "step" && e["step"] > 10;  // since it was requested
          }) >= 20);
    const auto rescaled = std::find_if(failed, events.end(), [](const json& e) {
      return e["event"] == "rescale" && e["to"] == 2;
    });
    CHECK(std::count_if(failed, rescaled, [](const json& e) { return e["event"] == "step"; }) >= 2);
    if (std::string(how) == "crash=1") {
      const json failure = run.events("failure").at(0);
      CHECK(failure["exit_code"] == 7);
      CHECK(failure["log"].back() == "member 1 cannot find its hat");
    }
  }
}

TEST_CASE("run: newcomers that fail for ever are given up") {
  TestRun run;
  run.options.replicas = {1, 1, 2};
  run.options.max_restarts = 1;
  worker(run, {"steps=100000", "crash=*"});
  run.start();
  REQUIRE(run.wait() == 1);  // here nobody trains at all
  CHECK(run.talk().find("cannot find its hat") != std::string::npos);
  CHECK(run.events("failure").size() == 2);
}

TEST_CASE("run: a program that cannot train ends the run with its sentence") {
  TestRun run;
  run.options.replicas = {3, 3, 3};
  worker(run, {"fatal=1"});
  run.start();
  REQUIRE(run.wait() == 1);
  CHECK(run.talk().find("train.pt: no training_step") != std::string::npos);
  CHECK(run.events("step").empty());
  TestRun newer;
  worker(newer, {"newer=1"});
  newer.start();
  CHECK(newer.wait() == 1);
  CHECK(newer.talk().find("worker protocol 99") != std::string::npos);
}

TEST_CASE("run: a slow sink holds up nothing but itself") {
  TestRun run;
  // It takes nothing before the launcher has heard of all steps, after which the program goes on.
  run.options.own_main = true;
  worker(run, {"steps=6000", "step_ms=0", "checkpoint=100000", "after=1000:0"});
  run.extra_sink = [&](const json& event) {
    if (event["event"] != "step" || event["step"] != 1) return;
    while (run.request({{"request", "status"}})["step"] != 6000) sleep_ms(5);
  };
  run.start();
  REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
  const int64_t dropped = last_event(run)["dropped_events"];
  CHECK(dropped > 0);
  // What is missing is said where it is missing.
  REQUIRE(run.events("dropped").size() == 1);
  CHECK(run.events("dropped")[0]["events"] == dropped);
  const auto steps = run.events("step");
  CHECK(steps[1]["step"] == 2 + dropped);
  CHECK(steps.back()["step"] == 6000);
}

TEST_CASE("run: a stopped replica is not a dead one") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(10);
  const pid_t victim = run.members().at(1).second;
  ::kill(victim, SIGSTOP);
  CHECK(soon([&] { return run.talk().find("was stopped") != std::string::npos; }));
  const auto status = [&] { return run.request({{"request", "status"}}); };
  const int64_t before = status()["step"];
  sleep_ms(900);
  const int64_t after = status()["step"];
  // Rank 0 may have to tell the last step yet, and finish the one for which it had this one's part.
  CHECK(after <= before + 2);
  CHECK(status()["members"][1]["state"] == "stopped");
  ::kill(victim, SIGCONT);
  run.wait_for_step(after + 20);
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  CHECK(run.events("failure").empty());
  CHECK(causes(run) == std::vector<std::string>{"start"});
  CHECK(run.talk().find("was stopped") != std::string::npos);
}

TEST_CASE("run: when all replicas hang, or the only one, they restart from the checkpoint") {
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    TestRun run;
    run.options.replicas = {replicas, replicas, replicas};
    run.options.hang_timeout_s = 1;
    worker(run, {"steps=60", "hang-all=35"});
    run.start();
    REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
    CHECK(run.events("resume")[0]["step"] == 30);
    const auto hangs = run.events("hang");
    REQUIRE(hangs.size() == 1);
    CHECK(hangs[0]["members"].size() == static_cast<size_t>(replicas));
    CHECK(hangs[0]["step"] == 34);
    CHECK(hangs[0]["seconds"].get<double>() >= 1);
    const std::string text = read_file(hangs[0]["file"], 1 << 20);
    for (int i = 0; i < replicas; ++i) {
      CHECK(text.find(fmt::format("replica {}, process", i)) != std::string::npos);
      CHECK(text.find(fmt::format("member {} hangs", i)) != std::string::npos);
    }
    CHECK(text.find(": state S") != std::string::npos);
    const auto failures = run.events("failure");
    CHECK(failures.size() == static_cast<size_t>(replicas));
    for (const auto& failure : failures) {
      CHECK(failure["reason"].get<std::string>().find("the whole run made no progress for") == 0);
    }
    CHECK(causes(run) == std::vector<std::string>{"start", "restart"});
    CHECK(run.events("end")[0]["steps"] == 60);
  }
}

TEST_CASE("run: a run that hangs in the same step again and again is given up") {
  TestRun run;
  run.options.replicas = {1, 1, 1};
  run.options.hang_timeout_s = 0.5;
  run.options.max_restarts = 1;
  worker(run, {"steps=60", "hangs=*:15"});
  run.start();
  REQUIRE_MESSAGE(run.wait(60) == 1, run.talk());
  CHECK(run.events("hang").size() == 2);
  const std::string reason = run.events("end")[0]["reason"];
  CHECK(reason.find("the whole run made no progress") != std::string::npos);
  CHECK(reason.find("2 breakdowns in a row") != std::string::npos);
}

TEST_CASE("run: a replica that hangs is killed and replaced, whoever it is") {
  for (const char* how : {"hang=0:30", "hang=2:30"}) {
    CAPTURE(how);
    TestRun run;
    run.options.replicas = {3, 3, 3};
    run.options.hang_timeout_s = 3;  // more than two looks: it is told before the end of patience
    worker(run, {"steps=250", how});
    run.start();
    REQUIRE_MESSAGE(run.wait() == 0, run.talk());
    CHECK(steps_complete(run.events("step"), 1, 250));
    const auto failures = run.events("failure");
    REQUIRE(failures.size() == 1);
    CHECK(failures[0]["member"] == how[5] - '0');
    CHECK(failures[0]["reason"].get<std::string>().find("made no progress for") == 0);
    CHECK(failures[0]["next"] == "2 of 3 continue, a replacement is started");
    CHECK(run.talk().find("the others have been waiting for replica") != std::string::npos);
    REQUIRE(run.events("hang").size() == 1);
    CHECK(run.events("hang")[0]["members"] == json({how[5] - '0'}));
    const auto list = causes(run);
    CHECK(std::count(list.begin(), list.end(), "replacement") == 1);
  }
}

TEST_CASE("run: a replica that stays stopped is replaced, also while another's death is mended") {
  for (const bool another_dies : {false, true}) {
    CAPTURE(another_dies);
    TestRun run;
    run.options.replicas = {3, 3, 3};
    run.options.hang_timeout_s = 1;
    worker(run, {"steps=100000"});
    run.start();
    run.wait_for_step(10);
    const auto members = run.members();
    ::kill(members.at(1).second, SIGSTOP);
    if (another_dies) ::kill(members.at(2).second, SIGKILL);
    run.wait_for([](const json& e) {
      return e["event"] == "failure" && e["reason"].get<std::string>().find("was stopped for") == 0;
    });
    run.wait_for([&](const json& e) {
      return e["event"] == "generation" && e["replicas"] == 3 && e["generation"] > 1;
    });
    run.signal(SIGTERM);
    REQUIRE(run.wait() == 143);
    const auto steps = run.events("step");
    CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
  }
}

TEST_CASE("run: a stop that ends in time, and slow members, are not taken for hung") {
  constexpr double kInTime = 2;  // seconds
  // The seconds of the longest of three stops in a run, until the next step.
  const auto three_stops = [] {
    TestRun run;
    run.options.replicas = {2, 2, 2};
    run.options.hang_timeout_s = 3;  // far more than one stop, less than all of them
    worker(run, {"steps=100000"});
    run.start();
    run.wait_for_step(10);
    const auto members = run.members();
    double longest = 0;
    for (int i = 0; i < 3; ++i) {
      const pid_t victim = members.at(static_cast<size_t>(i) % 2).second;
      const TimePoint begun = Monotonic::now();
      ::kill(victim, SIGSTOP);
      sleep_ms(1200);
      ::kill(victim, SIGCONT);
      const auto steps = static_cast<int64_t>(run.events("step").size());
      run.wait_for_step(steps + 1);
      longest = std::max(longest, seconds_since(begun));
      run.wait_for_step(steps + 5);
    }
    run.signal(SIGTERM);
    REQUIRE(run.wait() == 143);
    if (longest < kInTime) CHECK(run.events("failure").empty());
    return longest;
  };
  CHECK(least_of_three(kInTime, three_stops) < kInTime);
}

TEST_CASE("run: a replica that computes, or writes a model, while the others wait is not hung") {
  for (const char* how : {"busy=1:30:2500", "saves=30:2500"}) {
    CAPTURE(how);
    TestRun run;
    run.options.replicas = {2, 2, 2};
    run.options.hang_timeout_s = 1;
    worker(run, {"steps=60", how});
    run.start();
    REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
    CHECK(run.events("failure").empty());
    CHECK(steps_complete(run.events("step"), 1, 60));
  }
}

TEST_CASE("run: a replica that is stopped while it writes a model is replaced") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.hang_timeout_s = 1;
  worker(run, {"steps=60", "saves=30:600000"});
  run.start();
  run.wait_for_step(30);
  ::kill(run.members().at(0).second, SIGSTOP);
  REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
  REQUIRE(run.events("failure").size() == 1);
  CHECK(run.events("failure")[0]["reason"].get<std::string>().find("was stopped for") == 0);
}

TEST_CASE("run: a validation that is longer for one replica is not taken for a hang") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.hang_timeout_s = 1;
  worker(run, {"steps=60", "validate=20:2000"});
  run.start();
  REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
  CHECK(run.events("validation").size() == 3);
  CHECK(run.events("failure").empty());
}

TEST_CASE("run: what always takes so long is killed once, and then given more time") {
  TestRun run;
  run.options.replicas = {1, 1, 1};
  run.options.hang_timeout_s = 0.3;
  run.options.max_restarts = 1;
  worker(run, {"steps=60", "busy=*:35:5000"});
  run.start();
  REQUIRE_MESSAGE(run.wait(60) == 0, run.talk());
  CHECK(run.events("hang").size() == 1);
}

TEST_CASE("run: a launcher that was stopped kills nobody when it continues") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  // More than HangWatch counts of a time in which nobody looked: 2 s.
  run.options.hang_timeout_s = 3;
  run.options.start_timeout_s = 5;  // a loaded machine needs more than 1 s for a start
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(30);
  run.signal(SIGSTOP);
  sleep_ms(6000);  // longer than any patience; the replicas cannot send for ever meanwhile
  run.signal(SIGCONT);
  run.wait_for_step(static_cast<int64_t>(run.events("step").size()) + 200);
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  CHECK(run.events("failure").empty());
  CHECK(causes(run) == std::vector<std::string>{"start"});
}

TEST_CASE("run: replicas that die soon after they have joined are given up; the others train") {
  TestRun run;
  run.options.replicas = {1, 1, 2};
  run.options.replicas_at = {{10, 2}};
  run.options.max_restarts = 2;
  worker(run, {"steps=100000", "frail=5"});
  run.start();
  run.wait_for([](const json& e) { return e["event"] == "failure" && e["member"] == 3; });
  run.wait_for_step(run.events("step").back()["step"].get<int64_t>() + 300);
  const auto failures = run.events("failure");
  REQUIRE(failures.size() == 3);
  CHECK(failures[1]["next"] == "1 of 2 continue, a replacement is started");
  CHECK(failures[2]["next"] == "1 of 2 continue without a replacement");
  CHECK(run.request({{"request", "status"}})["members"].size() == 1);
  run.request({{"request", "scale"}, {"replicas", 2}});  // a new request is a new attempt
  run.wait_for([](const json& e) { return e["event"] == "failure" && e["member"] == 4; });
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, static_cast<int64_t>(steps.size())));
}

namespace {

// A machine of its own, on which the fake worker counts kills for want of memory.
void little_memory(TestRun& run, const std::vector<std::string>& arguments) {
  run.options.system_root = join_path(run.folder(), "root");
  make_directories(join_path(run.options.system_root, "proc"));
  write_file_atomic(join_path(run.options.system_root, "proc/vmstat"), "oom_kill 0\n");
  worker(run, {"root=" + run.options.system_root});
  worker(run, arguments);
}

}  // namespace

TEST_CASE("run: a kill for want of memory is no failure while a smaller batch can be tried") {
  TestRun run;
  little_memory(run, {"steps=40", "atomic=4096", "memory=*:128"});
  SUBCASE("when it starts") {
    run.options.replicas = {1, 1, 1};
  }
  SUBCASE("several at once") {
    run.options.replicas = {3, 3, 3};
  }
  SUBCASE("in a step") {
    worker(run, {"memory_step=25"});
  }
  run.start();
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  const auto failures = run.events("failure");
  const auto replicas = static_cast<size_t>(run.options.replicas.initial);
  CHECK(failures.size() >= 5);
  CHECK(failures.size() <= 5 * replicas);
  for (const auto& failure : failures) CHECK(failure["reason"] == "killed: memory ran out");
  CHECK(failures[0]["next"].get<std::string>().find(", with at most 2048 samples at once") !=
        std::string::npos);
  CHECK(run.events("step").back()["atomic"] == 128);
}

TEST_CASE("run: with the smallest atomic batch it is a failure") {
  TestRun run;
  run.options.max_restarts = 1;
  little_memory(run, {"atomic=1024", "memory=*:128", "least=256"});
  run.start();
  REQUIRE_MESSAGE(run.wait() == 1, run.talk());
  // 1024, 512 and 256; then it follows no smaller limit: two in a row.
  CHECK(run.events("failure").size() == 5);
  CHECK(last_event(run)["reason"].get<std::string>().find("memory ran out") != std::string::npos);
}

TEST_CASE("run: the next generation knows the limit, even if the killed process ends late") {
  TestRun run;
  run.options.replicas = {3, 3, 3};
  run.options.exit_settle_s = 30;
  little_memory(run, {"steps=80", "atomic=32", "memory=1:16", "memory_step=20", "late_end=100"});
  run.start();
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, 80));
  for (size_t i = 0; i < steps.size(); ++i) CHECK(steps[i]["atomic"] == (i < 19 ? 32 : 16));
  CHECK(run.events("failure").size() == 1);
}

TEST_CASE(
    "run: nobody waits for a spare, and one killed for want of memory makes no batch smaller") {
  TestRun run;
  run.options.replicas = {2, 2, 2};
  run.options.spares = 1;
  little_memory(run, {"steps=100000", "atomic=64"});
  run.start();
  run.wait_for_step(1);
  const auto spare = [&](uint64_t least) {
    json found;
    REQUIRE(soon([&] {
      const json status = run.request({{"request", "status"}});
      for (const json& member : status["members"]) {
        if (member["state"] == "spare" && member["member"] >= least) found = member;
      }
      return !found.is_null();
    }));
    return found;
  };
  const json first = spare(2);
  ::kill(first["pid"].get<pid_t>(), SIGSTOP);
  CHECK(
      soon([&] { return run.talk().find("replica 2 was stopped (process") != std::string::npos; }));
  run.wait_for_step(run.events("step").back()["step"].get<int64_t>() + 5);
  write_file_atomic(join_path(run.options.system_root, "proc/vmstat"), "oom_kill 1\n");
  ::kill(first["pid"].get<pid_t>(), SIGKILL);
  spare(3);
  CHECK(run.request({{"request", "status"}})["spares"] == 1);
  const auto failures = run.events("failure");
  REQUIRE(failures.size() == 1);
  CHECK(failures[0]["reason"] == "killed: memory ran out");
  CHECK(failures[0]["next"] == "2 of 2 continue");
  run.wait_for_step(run.events("step").back()["step"].get<int64_t>() + 5);
  CHECK(run.events("step").back()["atomic"] == 64);
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
}

// The other host's agent leads nothing: it joins the run at its port.
void start_on_two_hosts(TestRun& run, TestRun& agent) {
  agent.options.hosts = HostsOptions{.secret = "secret"};
  agent.options.checkpoint_dir = run.options.checkpoint_dir;  // hosts share storage
  agent.options.output_dir = run.options.output_dir;
  agent.body = [&agent, port = run.options.hosts->port](const std::vector<EventSink>&,
                                                        const Talk& talk) {
    const auto find = [port] { return LauncherAddress{"127.0.0.1", port}; };
    return run_agent({.run = agent.options, .id = "1", .host = "other", .find_launcher = find},
                     talk);
  };
  run.start();
  agent.start();
}

TEST_CASE("run: a kill for want of memory on another host is recognised") {
  const ReservedPort reserved = reserve_port();  // nobody else takes it before the launcher does
  const auto port = static_cast<uint16_t>(reserved.number);
  TestRun run, agent;
  little_memory(run, {"steps=60", "gather=2", "atomic=64", "memory=0:64"});
  run.options.hosts = HostsOptions{.secret = "secret", .port = port};
  little_memory(agent, {"steps=60", "gather=2", "atomic=64", "memory=*:16", "dir=" + run.folder()});
  start_on_two_hosts(run, agent);
  REQUIRE_MESSAGE(run.wait() == 0, run.talk());
  CHECK_MESSAGE(agent.wait() == 0, agent.talk());
  const auto failures = run.events("failure");
  REQUIRE(failures.size() == 2);
  for (const auto& failure : failures) CHECK(failure["reason"] == "killed: memory ran out");
  CHECK(run.events("step").back()["atomic"] == 16);
  CHECK(run.events("generation").back()["members"] == json({0, 3}));
}

TEST_CASE("run: a host that is lost while the program goes on after its training is a failure") {
  const ReservedPort reserved = reserve_port();
  const auto port = static_cast<uint16_t>(reserved.number);
  TestRun run, agent;
  run.options.hosts = HostsOptions{.secret = "secret", .slots = 0, .port = port};
  run.options.own_main = agent.options.own_main = true;
  worker(run, {"steps=20", "after=60000:0"});
  worker(agent, {"steps=20", "after=60000:0"});
  start_on_two_hosts(run, agent);
  run.wait_for_step(20);
  REQUIRE(soon([&] { return run.request({{"request", "status"}})["finished"] == true; }));
  agent.signal(SIGKILL);
  CHECK_MESSAGE(run.wait() == 1, run.talk());
  CHECK(last_event(run)["result"] == "failed");
  const std::string reason = last_event(run)["reason"];
  CHECK(reason.find("the program failed after its training: its host other") == 0);
}

TEST_CASE("run: a host without a launcher gives up if nobody will start one, or has missed it") {
  const auto exit_of = [](const std::function<LauncherAddress()>& find, std::string& said) {
    TestRun agent;
    worker(agent, {});
    agent.options.hosts = HostsOptions{.secret = "secret"};
    agent.body = [&](const std::vector<EventSink>&, const Talk& talk) {
      return run_agent({.run = agent.options,
                        .id = "1",
                        .host = "other",
                        .find_launcher = find,
                        .patience = Seconds(0.5)},
                       talk);
    };
    agent.start();
    const int code = agent.wait();
    said = agent.talk();
    return code;
  };
  std::string said;
  CHECK(exit_of([]() -> LauncherAddress { fail("nobody is here"); }, said) == 1);
  CHECK(said == "gives up: nobody is here\n");
  CHECK(exit_of([]() -> LauncherAddress { throw RunEnded(7); }, said) == 7);
}

TEST_CASE("run: requests over the control socket") {
  TestRun run;
  run.options.replicas = {1, 1, 2};
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(5);
  json status = run.request({{"request", "status"}});
  CHECK(status["name"] == "test");
  CHECK(status["state"] == "training");
  CHECK(status["replicas"] == 1);
  CHECK(status["pid"] == run.pid());
  CHECK(status["step"] >= 5);
  CHECK(run.request({{"request", "scale"}, {"replicas", 2}})["from"] == 1);
  run.wait_for([](const json& e) { return e["event"] == "rescale" && e["cause"] == "scale"; });
  CHECK_THROWS_AS(run.request({{"request", "scale"}, {"replicas", 0}}), Error);
  CHECK_THROWS_AS(run.request({{"request", "scale"}, {"replicas", 1 << 20}}), Error);
  CHECK_THROWS_AS(run.request({{"request", "scale"}, {"replicas", "many"}}), Error);
  CHECK_THROWS_AS(run.request({{"request", "dance"}}), Error);
  CHECK_THROWS_AS(run.request(json::array()), Error);
  run.request({{"request", "scale"}, {"replicas", 3}});  // the wish of now counts
  run.wait_for([](const json& e) { return e["event"] == "generation" && e["replicas"] == 3; });

  // A second run of the same name is refused.
  TestRun second;
  second.options.checkpoint_dir = run.options.checkpoint_dir;
  second.start();
  CHECK(second.wait() == 1);
  CHECK(second.talk().find("run test is live (process " + std::to_string(run.pid())) == 0);

  run.request({{"request", "cancel"}, {"checkpoint", true}});
  REQUIRE(run.wait() == 143);
  CHECK(last_event(run)["result"] == "cancelled");
  CHECK(last_event(run)["checkpoint"] == true);
  CHECK(json::parse(read_file(run.options.record_file, 1 << 16))["state"] == "cancelled");
  CHECK_FALSE(path_exists(run.options.control_socket));
}

TEST_CASE("run: the status has the job's hints, and what rescales cost") {
  TestRun run;
  worker(run, {"steps=100000", "hints=1"});
  run.options.replicas = {1, 1, 2};
  run.start();
  run.wait_for_step(3);
  const auto hints = [&] { return run.request({{"request", "status"}})["hints"]; };
  CHECK(hints()["initBatchSize"] == 32);
  CHECK(hints()["remainingProgress"] > 1000);
  CHECK_FALSE(hints().contains("rescaleCost"));
  run.request({{"request", "scale"}, {"replicas", 2}});
  run.wait_for([](const json& e) { return e["event"] == "rescale"; });
  CHECK(hints()["rescaleCost"] == 0.001);
  CHECK(run.events("hints").empty());
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
}

TEST_CASE("run: what a replica says of its GPU is in the events and the status") {
  TestRun run;
  worker(run, {"steps=100000", "gpu=0"});
  run.options.replicas = {1, 1, 2};
  run.start();
  const json event = run.wait_for([](const json& e) { return e["event"] == "gpu"; });
  CHECK(event["member"] == 0);
  CHECK(event["host"].is_null());
  CHECK(event["id"] == "GPU-0");
  CHECK(event["busy_percent"] == 87);
  CHECK(event["memory_used_bytes"] == 500);
  CHECK(event["power_w"].is_null());
  const json status = run.request({{"request", "status"}});
  CHECK(status["gpu_temperature_c"] == 61);
  CHECK(status["gpu_power_w"].is_null());
  // A replica that tells nonsense is killed, like any with an invalid message; the other goes on.
  run.request({{"request", "scale"}, {"replicas", 2}});
  run.wait_for([](const json& e) { return e["event"] == "failure" && e["member"] == 1; });
  const int64_t step = run.request({{"request", "status"}})["step"];
  run.wait_for_step(step + 3);
  run.signal(SIGTERM);
  CHECK(run.wait() == 143);
}

TEST_CASE("run: replicas run on slots of their own, and leave those that are taken away") {
  TestRun run;
  run.options.replicas = {1, 1, 2};
  run.options.threads = 0;
  run.options.slots = {0};
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(5);
  CHECK(run.request({{"request", "status"}})["slots"] == json{0});
  const auto cores_of = [](pid_t pid) {
    cpu_set_t cores;
    REQUIRE(sched_getaffinity(pid, sizeof cores, &cores) == 0);
    std::vector<int> result;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(static_cast<size_t>(i), &cores)) result.push_back(i);
    }
    return result;
  };
  CHECK(cores_of(run.members().front().second) == std::vector{0});
  CHECK_THROWS_AS(run.request({{"request", "scale"}, {"replicas", 2}}), Error);
  CHECK_THROWS_AS(run.request({{"request", "scale"}, {"replicas", 1}, {"slots", json::array()}}),
                  Error);
  CHECK_THROWS_AS(run.request({{"request", "scale"}, {"replicas", 1}, {"slots", {1, 1}}}), Error);
  if (available_cores() > 1) {
    run.request({{"request", "scale"}, {"replicas", 2}, {"slots", {0, 1}}});
    run.wait_for([](const json& e) { return e["event"] == "generation" && e["replicas"] == 2; });
    run.wait_for([&](const json&) { return run.members().size() == 2; });
    CHECK(cores_of(run.members().back().second) == std::vector{1});
    run.request({{"request", "scale"}, {"replicas", 1}, {"slots", {1}}});
    run.wait_for([](const json& e) { return e["event"] == "generation" && e["generation"] == 3; });
    run.wait_for([&](const json&) {
      return run.request({{"request", "status"}})["slots"] == json{1};
    });
    // To where it is not at all: live, through a replica that goes along.
    run.request({{"request", "scale"}, {"replicas", 1}, {"slots", {0}}});
    run.wait_for([&](const json&) {
      return run.request({{"request", "status"}})["slots"] == json{0};
    });
    CHECK(run.events("resume").empty());
  }
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
  const auto steps = run.events("step");
  CHECK(steps_complete(steps, 1, steps.back()["step"]));
}

TEST_CASE("run: kill -9 of the launcher leaves no orphan") {
  TestRun run;
  run.options.replicas = {3, 3, 3};
  worker(run, {"steps=100000"});
  run.start();
  run.wait_for_step(10);
  const auto members = run.members();
  REQUIRE(members.size() == 3);
  ::kill(members[2].second, SIGSTOP);
  run.signal(SIGKILL);
  REQUIRE(run.wait() == 1000 + SIGKILL);
  const TimePoint begin = Monotonic::now();
  const auto any = [&] {
    return std::any_of(members.begin(), members.end(), [](auto& m) { return alive(m.second); });
  };
  while (any() && seconds_since(begin) < 30) sleep_ms(5);
  CHECK_FALSE(any());
  run.start();  // what it left is no obstacle
  run.wait_for_step(5);
  run.signal(SIGTERM);
  REQUIRE(run.wait() == 143);
}
