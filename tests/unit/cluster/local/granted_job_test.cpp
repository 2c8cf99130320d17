#include "core/cluster/local/runner/granted_job.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/active_job.h"
#include "core/cluster/local/runner/launch_options.h"
#include "tests/unit/cluster/local/granted_command.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

// As services wrote it before there was a grant.
Json flat_job() {
  return Json::parse(R"({"format": 1, "name": "a", "kind": "command", "program": "true",
                         "directory": "/", "arguments": ["x"], "environment": {"A": "b"},
                         "min_replicas": 2, "max_replicas": null, "tensorboard": null,
                         "grace_s": 7, "future": [1]})");
}

void check_refused(const Json& wrong) {
  CAPTURE(wrong.dump());
  CHECK_THROWS_AS(granted_job(wrong, "job.json"), Error);
}

}  // namespace

TEST_CASE("job.json: what was submitted, and what was granted") {
  const GrantedJob read = granted_job(granted_command(), "job.json");
  CHECK(read.spec.kind == JobSpec::Kind::command);
  CHECK(read.spec.program == "bin/train");
  CHECK(read.spec.arguments == std::vector<std::string>{"x"});
  CHECK(read.spec.environment.at("A") == "b");
  CHECK(read.spec.tensorboard == "charts");
  CHECK(read.spec.grace_s == 7);
  CHECK(read.spec.retries == 5);
  CHECK(read.grant.name == "a");
  CHECK(read.grant.job_namespace == "default");
  CHECK(read.grant.directory == "/p");
  CHECK(read.grant.min_replicas == 2);
  CHECK(read.grant.max_replicas == launch::kMaxReplicas);
  CHECK(read.grant.tensorboard == "/t/charts");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"/format", 3},
                                                 {"/format", nullptr},
                                                 {"/spec", nullptr},
                                                 {"/spec/format", 2},
                                                 {"/spec/kind", "pod"},
                                                 {"/spec/environment", {1}},
                                                 {"/spec/grace_s", -1},
                                                 {"/spec/program", nullptr},
                                                 {"/grant", nullptr},
                                                 {"/grant/slot_kind", "tpu"},
                                                 {"/grant/slots_per_replica", 0},
                                                 {"/grant/accelerators", {{"x", "fast"}}},
                                                 {"/grant/accelerators", {{"1", 2}}},
                                                 {"/grant/directory", nullptr},
                                                 {"/grant/name", 3}}) {
    Json wrong = granted_command();
    wrong[Json::json_pointer(key)] = value;
    check_refused(wrong);
  }
}

TEST_CASE("job.json of an earlier version is read") {
  const GrantedJob read = granted_job(flat_job(), "job.json");
  CHECK(read.grant.name == "a");
  CHECK(read.grant.job_namespace == "default");
  CHECK(read.grant.directory == "/");
  CHECK(read.spec.kind == JobSpec::Kind::command);
  CHECK(read.spec.arguments == std::vector<std::string>{"x"});
  CHECK(read.spec.environment.at("A") == "b");
  CHECK(read.grant.min_replicas == 2);
  CHECK(read.grant.max_replicas == launch::kMaxReplicas);
  CHECK(read.grant.tensorboard.empty());
  CHECK(read.spec.grace_s == 7);
  CHECK(granted_name(flat_job(), "job.json") == "a");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"format", 3},
                                                 {"kind", "pod"},
                                                 {"slot_kind", "tpu"},
                                                 {"slots_per_replica", 0},
                                                 {"environment", {1}},
                                                 {"grace_s", -1},
                                                 {"program", nullptr},
                                                 {"name", 3}}) {
    Json wrong = flat_job();
    wrong[key] = value;
    check_refused(wrong);
  }
}

TEST_CASE("a training archive's job.json of an earlier version runs as it did") {
  Json flat = Json::parse(R"({"format": 1, "name": "m-1", "namespace": "default",
      "kind": "archive", "program": "/f/project/train.pt", "arguments": [],
      "directory": "/f/project", "settings": ["epochs=3"], "environment": {},
      "min_replicas": 3, "max_replicas": 2, "slot_kind": "shared", "slots_per_replica": 2,
      "retries": 4, "tensorboard": "/state/tensorboard/Charts", "grace_s": 9})");
  const GrantedJob read = granted_job(flat, "job.json");
  const launch::RunOptions run = training_options(read, {"/f"}, {0, 1, 2, 3});
  CHECK(run.name == "m-1");
  CHECK(run.program == "/f/project/train.pt");
  CHECK(run.settings == std::vector<std::string>{"epochs=3"});
  CHECK(run.replicas.min == 2);  // bounds that cannot be were stored once
  CHECK(run.replicas.max == 2);
  CHECK_FALSE(run.bound);
  CHECK(run.slots_per_replica == 2);
  CHECK(run.max_restarts == 4);
  CHECK(run.grace_s == 9);
  CHECK(read.grant.tensorboard == "/state/tensorboard/Charts");
}

TEST_CASE("what the service writes is what the runner reads") {
  const TemporaryDirectory folder;
  LocalPaths paths;
  paths.folder = folder.path();
  paths.jobs = folder.file("jobs");
  make_directories(paths.job("model-x"));
  ActiveJob job;
  job.spec.name_prefix = "model-";
  job.spec.program = "./train";
  job.spec.directory = "src";
  job.spec.arguments = {"\xC3\xA4 \"b\""};
  job.spec.environment = {{"A", "{}"}};
  job.spec.tensorboard = "charts";
  job.record.name = "model-x";
  job.record.spec = dump_json(to_json(job.spec));
  job.record.min_replicas = 2;
  job.record.max_replicas = 5;
  job.state.slots_per_replica = 3;
  Machine machine;
  machine.slots = 3;
  machine.kinds = {"fast", "slow"};
  machine.slot_kinds = {0, 1, 1};
  write_job_file(job, paths, machine, true);
  const JobFolder in{paths.job("model-x")};
  const GrantedJob read = read_granted_job(in);
  CHECK(read.spec == job.spec);
  CHECK(read.grant.name == "model-x");
  CHECK(read.grant.directory == in.path + "/project/src");
  CHECK(read.grant.min_replicas == 2);
  CHECK(read.grant.max_replicas == 5);
  CHECK(read.grant.slot_kind == "shared");
  CHECK(read.grant.slots_per_replica == 3);
  CHECK(read.grant.accelerators ==
        std::map<int, std::string>{{0, "fast"}, {1, "slow"}, {2, "slow"}});
  CHECK(read.grant.tensorboard == folder.path() + "/tensorboard/charts");
  CHECK(granted_name(parse_json(read_file(in.job_file(), 1 << 20), "job.json"), "job.json") ==
        "model-x");
  struct stat info {};
  REQUIRE(stat(in.job_file().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  write_job_file(job, paths, machine, false);
  CHECK(read_granted_job(in).grant.directory == in.path + "/src");
}
