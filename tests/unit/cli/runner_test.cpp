#include <algorithm>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "cli/runner_files.h"
#include "cli/runner_job.h"
#include "core/base/error.h"
#include "core/base/files.h"

using namespace adaptdl;
using namespace adaptdl::cli;

namespace {

Json job() {
  return Json::parse(R"({"format": 1, "name": "a", "kind": "command", "program": "true",
                         "directory": "/", "arguments": ["x"], "environment": {"A": "b"},
                         "min_replicas": 2, "max_replicas": null, "tensorboard": null,
                         "grace_s": 7, "future": [1]})");
}

}  // namespace

TEST_CASE("runner: a job as the service writes it") {
  const RunnerJob read = runner_job_from_json(job(), "job.json");
  CHECK(read.name == "a");
  CHECK(read.job_namespace == "default");
  CHECK(read.kind == JobSpec::Kind::command);
  CHECK(read.arguments == std::vector<std::string>{"x"});
  CHECK(read.environment.at("A") == "b");
  CHECK(read.min_replicas == 2);
  CHECK(read.max_replicas == launch::kMaxReplicas);
  CHECK(read.tensorboard.empty());
  CHECK(read.grace_s == 7);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"format", 2},
                                                 {"kind", "pod"},
                                                 {"slot_kind", "tpu"},
                                                 {"slots_per_replica", 0},
                                                 {"environment", {1}},
                                                 {"grace_s", -1},
                                                 {"program", nullptr},
                                                 {"name", 3}}) {
    Json wrong = job();
    wrong[key] = value;
    CHECK_THROWS_AS(runner_job_from_json(wrong, "job.json"), Error);
  }
}

TEST_CASE("runner: as many replicas as the slots hold, within the job's bounds") {
  RunnerJob read = runner_job_from_json(job(), "job.json");
  const auto bounds = [&](const std::vector<int>& slots) {
    return command_options(read, "/f", slots, "").replicas;
  };
  CHECK(bounds({0, 1, 2}).initial == 3);
  CHECK(bounds({5}).initial == 1);
  CHECK(bounds({5}).min == 1);
  read.max_replicas = 2;
  CHECK(bounds({0, 1, 2}).initial == 2);
  read.slots_per_replica = 2;
  CHECK(bounds({0, 1, 2}).initial == 1);
  CHECK_THROWS_AS(bounds({0}), UsageError);
  CHECK(command_options(read, "/f", {0, 1}, "http://x:1/j/t/").supervisor_url == "http://x:1/j/t");
}

TEST_CASE("runner: cores and GPUs are a replica's own, shared slots only count") {
  for (const auto& [kind, bound] : {std::pair("core", true), {"gpu", true}, {"shared", false}}) {
    Json with = job();
    with["slot_kind"] = kind;
    const RunnerJob read = runner_job_from_json(with, "job.json");
    CHECK(read.bound == bound);
    CHECK(read.on_gpus == (std::string(kind) == "gpu"));
    if (read.on_gpus) continue;  // which this machine may not have
    CHECK(command_options(read, "/f", {0, 1}, "").bound == bound);
    CHECK(training_options(read, "/f", {0, 1}).bound == bound);
  }
}

TEST_CASE("runner: slots on the command line") {
  CHECK(parse_slots("0,3") == std::vector{0, 3});
  for (const char* wrong : {"", "1,", ",1", "1,1", "-1", "a", "1 2", "0-3"}) {
    CHECK_THROWS_AS(parse_slots(wrong), UsageError);
  }
}

TEST_CASE("runner: a file of lines stays within its bound, and is its user's alone") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("lines");
  {
    LineFile lines(path, 100);
    for (int i = 0; i < 50; ++i) lines.add("0123456789");
  }
  CHECK(file_size(path) <= 100);
  CHECK(file_size(path + ".1") <= 100);
  CHECK(file_size(path + ".1") > 80);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  LineFile nowhere(folder.file("no/such/folder"), 100);
  nowhere.add("lost");
}

TEST_CASE("runner: steps are thinned, other events are not") {
  const TemporaryDirectory folder;
  EventFileSink sink(folder.file("events"));
  for (int i = 0; i < 100; ++i) sink.event({{"event", "step"}, {"step", i}});
  sink.event({{"event", "end"}});
  const std::string text = read_file(folder.file("events"), 1 << 20);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 4);
  CHECK(text.find("\"step\":0") != std::string::npos);
  CHECK(text.find("\"end\"") != std::string::npos);
}

TEST_CASE("runner: one at a time has the folder") {
  const TemporaryDirectory folder;
  {
    const auto one = lock_job_folder(folder.path());
    CHECK(one);
    CHECK_FALSE(lock_job_folder(folder.path()));
  }
  CHECK(lock_job_folder(folder.path()));
}
