#include "core/cluster/kubernetes/webhook/admission.h"

#include <doctest/doctest.h>

#include "core/formats/json_fields.h"
#include "core/kube/answer.h"
#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

std::optional<std::string> takes_all(const std::string&, const Json&) {
  return std::nullopt;
}

Json review(const char* operation, const Json& spec, const Json& old_spec = Json(),
            const TryTemplate& try_template = takes_all) {
  Json request = {{"uid", "42"}, {"operation", operation}, {"namespace", "team-a"}};
  request["object"] = {{"metadata", {{"generateName", "x-"}}}, {"spec", spec}};
  if (!old_spec.is_null()) {
    request["oldObject"] = {{"metadata", {{"name", "x"}}}, {"spec", old_spec}};
  }
  const Json answer =
      review_admission({{"kind", "AdmissionReview"}, {"request", request}}, try_template);
  CHECK(answer["apiVersion"] == "admission.k8s.io/v1");
  CHECK(answer["response"]["uid"] == "42");
  return answer["response"];
}

Json spec(const char* more = "{}") {
  Json result = sample_job()["spec"];
  result.update(Json::parse(more));
  return result;
}

}  // namespace

TEST_CASE("a good job is admitted") {
  CHECK(review("CREATE", spec())["allowed"] == true);
  CHECK(review("CREATE", spec(R"({"minReplicas": 2, "maxReplicas": 2})"))["allowed"] == true);
  CHECK(review("DELETE", Json())["allowed"] == true);
  const Json warned = review("CREATE", spec(R"({"maxReplica": 2})"));
  CHECK(warned["allowed"] == true);
  CHECK(warned["warnings"] == Json{"spec.maxReplica: unknown field, ignored"});
}

TEST_CASE("a review of a job that is nested too deeply is a refusal, not an error") {
  Json job = {{"metadata", {{"name", "x"}}}, {"spec", spec()}};
  Json deep = 1;
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  job["spec"]["template"]["deep"] = deep;
  const Json request = {{"uid", "42"}, {"operation", "CREATE"}, {"object", job}};
  const Json read =
      kube::parse_answer(dump_json({{"kind", "AdmissionReview"}, {"request", request}}), "review",
                         kube::ObjectsAre::below_members);
  const Json response = review_admission(read, takes_all)["response"];
  CHECK(response["uid"] == "42");
  CHECK(response["allowed"] == false);
  CHECK(text_at_pointer(response, "/status/message").starts_with("spec: nested too deeply"));
}

TEST_CASE("an invalid job is refused with the field named") {
  const auto message = [](const Json& job) {
    const Json response = review("CREATE", job);
    CHECK(response["allowed"] == false);
    CHECK(response["status"]["code"] == 422);
    CHECK(response["status"]["reason"] == "Invalid");
    return response["status"]["message"].get<std::string>();
  };
  CHECK(message(spec(R"({"minReplicas": 3, "maxReplicas": 2})")).starts_with("spec.maxReplicas"));
  CHECK(message(spec(R"({"minReplicas": -1})")).starts_with("spec.minReplicas"));
  CHECK(message(spec(R"({"accelerators": "A100"})")).starts_with("spec: accelerators"));
  CHECK(message(spec(R"({"accelerators": [""]})")).starts_with("spec.accelerators"));
  CHECK(message(Json()).starts_with("spec:"));
  CHECK(message(Json::object()).starts_with("spec.template"));

  const Json refused =
      review("CREATE", spec(), Json(), [](const std::string& job_namespace, const Json& pod) {
        CHECK(job_namespace == "team-a");
        CHECK(pod == spec()["template"]);
        return std::optional<std::string>("containers[0].image: Required value");
      });
  CHECK(refused["status"]["message"] == "spec.template: containers[0].image: Required value");
  // An API server that cannot be asked stops nobody.
  CHECK(review("CREATE", spec(), Json(), [](const std::string&, const Json&) {
          fail("no answer");
          return std::optional<std::string>();
        })["allowed"] == true);
}

TEST_CASE("of a job that is there only its bounds may change") {
  CHECK(review("UPDATE", spec(R"({"maxReplicas": 4, "suspend": true})"), spec())["allowed"] ==
        true);
  const Json changed = review("UPDATE", spec(R"({"preemptible": false})"), spec());
  CHECK(changed["allowed"] == false);
  CHECK(changed["status"]["reason"] == "Forbidden");
  CHECK(changed["status"]["message"].get<std::string>().starts_with(
      "updates to job spec are forbidden"));
  CHECK(review("UPDATE", spec(R"({"minReplicas": -1})"), spec())["status"]["reason"] == "Invalid");
  // One that was never valid can still lose a finalizer.
  CHECK(review("UPDATE", Json::object(), Json::object())["allowed"] == true);
}

TEST_CASE("what is no review is an Error") {
  for (const char* text : {"null", "[]", R"({"kind": "Pod"})", R"({"kind": "AdmissionReview"})",
                           R"({"kind": "AdmissionReview", "request": {"uid": 5}})"}) {
    CHECK_THROWS_AS(review_admission(Json::parse(text), takes_all), Error);
  }
}
