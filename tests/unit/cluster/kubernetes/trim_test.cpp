#include "core/cluster/kubernetes/trim.h"

#include <doctest/doctest.h>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/job/worker_environment.h"
#include "core/kube/answer.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

Json& template_of(Json& job) {
  return job["spec"]["template"];
}

Json& container_of(Json& job) {
  return template_of(job)["spec"]["containers"][0];
}

std::string problem_of(const Json& object) {
  std::string problem;
  CHECK(read_job(object, problem).job_namespace == "team-a");
  return problem;
}

}  // namespace

TEST_CASE("a job that is nested too deeply is invalid, and small once trimmed") {
  Json deep = sample_job();
  deep[kube::kTooDeep] = true;
  CHECK(problem_of(deep).starts_with("spec: nested too deeply"));
  trim_job(deep);
  CHECK(template_of(deep) == Json::object());
  CHECK(problem_of(deep).starts_with("spec: nested too deeply"));
}

TEST_CASE("a job that is too large is invalid, and small once trimmed") {
  const char* const kWhole = "spec.template: takes more than 1 MiB";
  const char* const kPlaces = "spec.template: what the scheduler reads of it";
  const Json lists = std::vector<Json>(kMostTemplate / 80, Json::array());
  const Json numbers = std::vector<Json>(kMostPlacement / 16, 1);
  for (const auto& [where, what, expected] : {
           std::tuple{"/containers/0/args", Json(std::string(kMostTemplate, 'x')), kWhole},
           std::tuple{"/containers/0/args", lists, kWhole},
           std::tuple{"/volumes", lists, kWhole},
           std::tuple{"/tolerations", numbers, kPlaces},
           std::tuple{"/containers/0/resources", numbers, kPlaces},
           std::tuple{"/nodeSelector", Json{{"a", std::string(kMostPlacement, 'x')}}, kPlaces},
       }) {
    Json large = sample_job();
    template_of(large)["spec"][Json::json_pointer(where)] = what;
    CHECK(problem_of(large).starts_with(expected));
    trim_job(large);
    CHECK(dump_json(large).size() < 1000);
    CHECK(problem_of(large).starts_with(expected));
  }
}

TEST_CASE("a usual job is kept, but for what nobody reads of its metadata") {
  Json job = sample_job();
  job["metadata"]["annotations"] = {{"kubectl.kubernetes.io/last-applied-configuration", "{...}"}};
  job["metadata"]["labels"] = {{"team", "a"}};
  trim_job(job);
  CHECK(job == sample_job());
  CHECK_FALSE(is_abridged(job));
}

TEST_CASE("of a large template only what the scheduler reads is kept") {
  Json job = sample_job();
  Json& spec = template_of(job)["spec"];
  container_of(job)["command"] = {"python", "train.py"};
  container_of(job)["resources"] = {{"limits", {{"nvidia.com/gpu", 1}}}};
  container_of(job)["env"] =
      Json::array({{{"name", "SCRIPT"}, {"value", std::string(500'000, 'x')}},
                   {{"name", kLoadPicklesVariable}, {"value", "0"}}});
  spec["nodeSelector"] = {{"zone", "a"}};
  spec["tolerations"] = Json::array({{{"key", "reserved"}, {"operator", "Exists"}}});
  spec["affinity"] = {{"nodeAffinity", {{"odd", true}}}, {"podAffinity", {{"other", true}}}};
  spec["volumes"] = Json::array({{{"name", "scratch"}, {"emptyDir", Json::object()}}});
  template_of(job)["metadata"] = {{"annotations", {{"note", std::string(10'000, 'x')}}}};
  const Json whole = job;
  CHECK(problem_of(job).empty());
  trim_job(job);
  CHECK(is_abridged(job));
  const Json& was = whole["spec"]["template"]["spec"];
  Json container = {{"image", was["containers"][0]["image"]},
                    {"name", was["containers"][0]["name"]},
                    {"command", {"python", "train.py"}},
                    {"resources", {{"limits", {{"nvidia.com/gpu", 1}}}}},
                    {"env", Json::array({{{"name", kLoadPicklesVariable}}})}};
  const Json expected = {{"containers", Json::array({container})},
                         {"nodeSelector", {{"zone", "a"}}},
                         {"tolerations", was["tolerations"]},
                         {"affinity", {{"nodeAffinity", {{"odd", true}}}}}};
  CHECK(template_of(job) == Json{{"spec", expected}});
  std::string problem;
  CHECK(read_job(job, problem).abridged);
  CHECK(problem.empty());
  CHECK_FALSE(read_job(whole, problem).abridged);

  // A second time nothing is left to take.
  const Json once = job;
  trim_job(job);
  CHECK(job == once);
}

TEST_CASE("of a job that has ended only its likeness is kept") {
  Json job = sample_job();
  job["status"]["phase"] = "Succeeded";
  Json& container = container_of(job);
  container["command"] = {"python", "train.py"};
  const Json kept = {{"image", container["image"]}, {"command", container["command"]}};
  container["args"] = std::string(20'000, 'x');
  Json long_one = job;
  container.erase("args");
  trim_job(job);
  CHECK(template_of(job) == Json{{"spec", {{"containers", Json::array({kept})}}}});
  trim_job(long_one);
  const Json image = {{"image", kept["image"]}};
  CHECK(template_of(long_one) == Json{{"spec", {{"containers", Json::array({image})}}}});
  CHECK(problem_of(long_one).empty());
}

TEST_CASE("a job that is only large, not too large, is left whole where its pods are made") {
  Json large = sample_job(), huge = sample_job();
  container_of(large)["args"] = std::string(kMostKept, 'x');
  container_of(huge)["args"] = std::string(kMostTemplate, 'x');
  const Json whole = large;
  trim_if_too_large(large);
  CHECK(large == whole);
  trim_if_too_large(huge);
  CHECK(template_of(huge) == Json::object());
  CHECK_FALSE(problem_of(huge).empty());
}

TEST_CASE("objects of any shape are trimmed") {
  for (const char* text :
       {"1", "[]", R"({"metadata": 1, "spec": 2, "status": 3})", R"({"spec": {"template": []}})",
        R"({"spec": {"template": {"spec": 1}}})",
        R"({"spec": {"template": {"spec": {"containers": {"a": 1}}}}})",
        R"({"spec": {"template": {"spec": {"containers": [1, []]}}}})"}) {
    Json small = Json::parse(text), large = small, ended = small;
    if (large.is_object() && large["spec"].is_object() && large["spec"]["template"].is_object()) {
      large["spec"]["template"]["large"] = std::string(kMostKept, 'x');
      ended["status"] = {{"phase", "Failed"}};
    }
    for (Json* each : {&small, &large, &ended}) {
      trim_if_too_large(*each);
      trim_job(*each);
      trim_pod(*each);
      trim_node(*each);
    }
  }
}
