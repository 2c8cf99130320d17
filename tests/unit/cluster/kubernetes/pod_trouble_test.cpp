#include "core/cluster/kubernetes/jobs/pod_trouble.h"

#include <doctest/doctest.h>

#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

TEST_CASE("a pod's events are asked when it is late and says nothing") {
  PodFacts pod = sample_pod(0, "n1", 1);
  CHECK_FALSE(waits_silently(pod, 100));  // it runs
  pod.ready = false;
  CHECK_FALSE(waits_silently(pod, 4));
  CHECK(waits_silently(pod, 100));
  for (const auto& change : std::vector<void (*)(PodFacts&)>{
           [](PodFacts& p) { p.scheduled = false; }, [](PodFacts& p) { p.deleting = true; },
           [](PodFacts& p) { p.end = PodEnd::failed; },
           [](PodFacts& p) { p.reason = "ErrImagePull"; }}) {
    PodFacts other = pod;
    change(other);
    CHECK_FALSE(waits_silently(other, 100));
  }
}

TEST_CASE("the newest warning tells why") {
  PodFacts pod = sample_pod(0, "n1", 1);
  const std::vector<Json> events = {
      Json::parse(R"({"type": "Warning", "reason": "FailedMount", "message": "no such config map",
                      "lastTimestamp": "2026-01-31T08:00:09Z"})"),
      Json::parse(R"({"type": "Normal", "reason": "SandboxChanged",
                      "lastTimestamp": "2026-01-31T08:00:30Z"})"),
      Json::parse(R"({"type": "Warning", "reason": "FailedScheduling", "message": "at first",
                      "lastTimestamp": null, "eventTime": "2026-01-31T08:00:01.000000Z"})"),
      Json(), Json::parse(R"({"type": "Warning", "reason": 3})")};
  read_pod_events(events, pod);
  CHECK(pod.reason == "FailedMount");
  CHECK(pod.message == "no such config map");

  PodFacts untold = sample_pod(0, "n1", 1);
  read_pod_events({events[1]}, untold);
  CHECK(untold.reason.empty());
}

TEST_CASE("a warning that is over tells nothing") {
  const auto event = [](const char* type, const char* reason, const char* second) {
    return Json{{"type", type},
                {"reason", reason},
                {"message", "m"},
                {"lastTimestamp", fmt::format("2026-01-31T08:00:{}Z", second)}};
  };
  const auto reason_of = [](const std::vector<Json>& events) {
    PodFacts pod = sample_pod(0, "n1", 1);
    read_pod_events(events, pod);
    return pod.reason;
  };
  const Json scheduling = event("Warning", "FailedScheduling", "20"),
             mount = event("Warning", "FailedMount", "10"),
             pulling = event("Normal", "Pulling", "15"), late = event("Warning", "Late", "40");
  CHECK(reason_of({scheduling}).empty());
  CHECK(reason_of({mount, scheduling}) == "FailedMount");
  CHECK(reason_of({pulling, mount}).empty());
  CHECK(reason_of({mount, pulling, scheduling}).empty());
  CHECK(reason_of({late, pulling, mount}) == "Late");
}
