// What somebody posts to the webhook.

#include "core/base/error.h"
#include "core/cluster/kubernetes/webhook/admission.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto takes_all = [](const std::string&, const Json&) -> std::optional<std::string> {
    return std::nullopt;
  };
  try {
    const Json review = parse_json(fuzz_text(data, size), "AdmissionReview");
    const Json answer = kubernetes::review_admission(review, takes_all);
    const Json& response = answer["response"];
    ADAPTDL_CHECK(response["uid"] == review["request"]["uid"]);
    ADAPTDL_CHECK(response["allowed"].get<bool>() != response.contains("status"));
  } catch (const Error&) {
    // refused
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"({"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",
"namespace":"team","object":{"metadata":{"name":"x","uid":"1"},"spec":{"minReplicas":1,
"maxReplicas":4,"accelerators":["*A100*","b"],"preemptible":true,"template":{"spec":{"containers":[{"name":"main"}]}}}}}})",
           R"({"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",
"object":{"metadata":{},"spec":{"template":{}}}}})",
           R"({"kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE",
"object":{"metadata":{"generateName":"x-"},"spec":{"maxReplicas":4,"suspend":true}},
"oldObject":{"metadata":{"name":"x"},"spec":{"maxReplicas":2}}}})"},
          {"1",
           "null",
           "true",
           "{}",
           "[]",
           "[{}]",
           "\"\"",
           "-1",
           "1e9",
           "\"generateName\":1",
           "\"generateName\":\"x\"",
           "\"name\":1,",
           "\"namespace\":{},",
           "\"labels\":[],",
           "\"cancel\":null,",
           "\"object\":",
           "\"oldObject\":",
           "\"metadata\":",
           "\"spec\":",
           "\"template\":",
           "\"startDeadlineSeconds\":"}};
}
