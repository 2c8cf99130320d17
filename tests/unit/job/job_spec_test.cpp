#include "core/job/job_spec.h"

#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

JobSpec full_spec() {
  JobSpec spec;
  spec.name_prefix = "digits-";
  spec.kind = JobSpec::Kind::archive;
  spec.program = "train.pt";
  spec.arguments = {"--verbose", ""};
  spec.directory = "sub";
  spec.settings = {"optimizer.lr=0.1"};
  spec.environment = {{"A", "1"}, {"B", ""}};
  spec.min_replicas = 1;
  spec.max_replicas = 8;
  spec.requested_replicas = 2;
  spec.preemptible = false;
  spec.request = {1500, int64_t{2} << 30, 1, {"*A100*", "fast"}};
  spec.data = {"/data/set", "images"};
  spec.checkpoint_size = int64_t{1} << 30;
  spec.tensorboard = "board";
  spec.retries = 0;
  spec.grace_s = 2.5;
  return spec;
}

}  // namespace

TEST_CASE("a job's spec reads back from JSON as it was") {
  for (const JobSpec& spec : {full_spec(), [] {
                                JobSpec plain;
                                plain.program = "/bin/true";
                                plain.restartable = false;
                                return plain;
                              }()}) {
    const Json json = parse_json(dump_json(to_json(spec)), "spec");
    CHECK(job_spec_from_json(json, "spec") == spec);
  }
}

TEST_CASE("absent values are null, and keys of newer versions are passed over") {
  JobSpec spec;
  spec.program = "/bin/true";
  Json json = to_json(spec);
  CHECK(json["format"] == 1);
  for (const char* key : {"name", "name_prefix", "directory", "max_replicas", "requested_replicas",
                          "checkpoint_size", "tensorboard", "restartable"}) {
    REQUIRE(json.contains(key));
    CHECK(json[key].is_null());
  }
  CHECK(json["resources"]["gpus"].is_null());
  json["colour"] = "blue";
  json.erase("retries");
  CHECK(job_spec_from_json(json, "spec") == spec);
}

TEST_CASE("a spec that no job may have is refused") {
  const auto refused = [](const char* pointer, const Json& value, const char* part) {
    Json json = to_json(full_spec());
    json[Json::json_pointer(pointer)] = value;
    CAPTURE(pointer);
    CHECK_ERROR(job_spec_from_json(json, "job.json"), part);
    CHECK_ERROR(job_spec_from_json(json, "job.json"), "job.json: ");
  };
  refused("/format", 2, "get a newer adaptdl");
  refused("/kind", "pod", "one of archive, executable, command");
  refused("/kind", "command", "settings");
  refused("/program", "", "say what to run");
  refused("/program", nullptr, "program");
  refused("/name", "Digits", "lower-case");
  refused("/name", "digits", "one of the two");
  refused("/name_prefix", std::string(60, 'a'), "5 more characters");
  refused("/arguments", "x", "a list");
  refused("/arguments/0", std::string("a\0b", 3), "zero byte");
  refused("/environment", 3, "object with text values");
  refused("/environment/A", 3, "environment.A");
  refused("/environment/A=B", "x", "'='");
  refused("/settings/0", "lr", "not KEY=VALUE");
  refused("/min_replicas", -1, "at least 0");
  refused("/min_replicas", 9, "max_replicas: is 8");
  refused("/max_replicas", 0, "max_replicas: is 0");
  refused("/requested_replicas", 9, "from min_replicas to max_replicas");
  refused("/requested_replicas", 0, "from min_replicas to max_replicas");
  refused("/resources/cpu_millicores", 0, "above 0");
  refused("/resources/memory_bytes", -1, "above 0");
  refused("/resources/gpus", -1, "from 0 to 1024");
  refused("/resources/gpus", int64_t{4} << 30, "from 0 to 1024");
  refused("/resources/accelerators", "fast", "a list");
  refused("/resources/accelerators/0", "", "a name is empty");
  refused("/resources", 4, "job.json");
  refused("/checkpoint_size", 0, "above 0");
  refused("/tensorboard", "../x", "not a valid TensorBoard instance name");
  refused("/retries", -1, "at least 0");
  refused("/grace_s", -0.5, "from 0 to 1000000");
  refused("/grace_s", 1e9, "from 0 to 1000000");
  refused("/data/0", "", "a path is empty");
}

TEST_CASE("text that JSON cannot keep is refused") {
  JobSpec spec = full_spec();
  spec.arguments = {"caf\xe9"};
  CHECK_ERROR(check_job_spec(spec, "the command line"), "the command line: some text is not UTF-8");
  spec.arguments = {"caf\xc3\xa9"};
  check_job_spec(spec, "the command line");
}

TEST_CASE("names of jobs") {
  for (const char* name : {"a", "a-b", "0.x", "a--b", "a.b.c"}) CHECK(valid_job_name(name));
  for (const char* name :
       {"", "-a", "a-", ".a", "..", "a/b", "A", "a_b", "a b", "a..b", "a.-b", "a-.b"}) {
    CAPTURE(name);
    CHECK_FALSE(valid_job_name(name));
  }
  CHECK(valid_job_name(std::string(63, 'a')));
  CHECK_FALSE(valid_job_name(std::string(64, 'a')));
  CHECK(valid_job_name_prefix("a-"));
  CHECK(valid_job_name_prefix(std::string(58, 'a')));
  CHECK_FALSE(valid_job_name_prefix(std::string(59, 'a')));
  CHECK_FALSE(valid_job_name_prefix(""));

  CHECK(job_name_prefix("My Model.pt") == "my-model-pt-");
  CHECK(job_name_prefix("digits") == "digits-");
  CHECK(job_name_prefix("...") == "job-");
  CHECK(job_name_prefix("") == "job-");
  CHECK(job_name_prefix("__a__b__") == "a-b-");
  CHECK(job_name_prefix("\xc3\xa9t\xc3\xa9") == "t-");
  for (const auto& text :
       {std::string(200, 'x'), std::string(200, '.') + "x", std::string("a.-.")}) {
    CHECK(valid_job_name_prefix(job_name_prefix(text)));
  }
}
