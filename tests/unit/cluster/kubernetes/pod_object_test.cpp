#include "core/cluster/kubernetes/jobs/pod_object.h"

#include <doctest/doctest.h>

#include "core/cluster/kubernetes/trim.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

PodFacts read(const std::string& status, const std::string& metadata = "{}") {
  Json pod = {{"metadata", Json::parse(metadata)}, {"status", Json::parse(status)}};
  pod["metadata"].update(Json::parse(R"({
    "name": "p", "labels": {"adaptdl/job": "digits"},
    "annotations": {"adaptdl/group": "4", "adaptdl/rank": "1", "adaptdl/replicas": "2",
                    "adaptdl/node": "n1"},
    "ownerReferences": [{"uid": "other"}, {"uid": "u", "controller": true}]})"));
  return read_pod(pod);
}

std::string terminated(int code, const char* reason) {
  return fmt::format(R"({{"containerStatuses": [{{"state": {{"terminated": {{
    "exitCode": {}, "reason": "{}", "finishedAt": "2026-01-31T08:00:00Z"}}}}}}]}})",
                     code, reason);
}

}  // namespace

TEST_CASE("a running pod") {
  const PodFacts pod = read(R"({"phase": "Running", "podIP": "10.0.0.5", "conditions": [
    {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]})");
  CHECK(pod.owner_uid == "u");
  CHECK(pod.job == "digits");
  CHECK(pod.group == 4);
  CHECK(pod.rank == 1);
  CHECK(pod.replicas == 2);
  CHECK(pod.node == "n1");
  CHECK(pod.ip == "10.0.0.5");
  CHECK(pod.scheduled);
  CHECK(pod.ready);
  CHECK(pod.end == PodEnd::none);
  CHECK(pod.reason.empty());
}

TEST_CASE("why a container ended, also in the error file of torchrun's programs") {
  const auto pod = [](const Json& left) {
    const Json ended = {{"exitCode", 1}, {"reason", "Error"}, {"message", left}};
    const Json state = {{"state", {{"terminated", ended}}}};
    return read(Json{{"containerStatuses", Json::array({state})}}.dump());
  };
  const auto message = [&](const Json& left) { return pod(left).message; };
  CHECK(message("no data") == "no data");
  CHECK(message(R"({"message": {"message": "ValueError: odd", "extraInfo": {
                    "py_callstack": "Traceback", "timestamp": "1"}}})") == "ValueError: odd");
  // The end of its log.
  const std::string log =
      "  File \"/a/adaptdl/torch/parallel.py\", line 226, in load\n"
      "_pickle.UnpicklingError: Weights only load failed. Two ways:\n"
      "\t(1) ...\n\nCheck the documentation.\n\n";
  CHECK(message(log) == "Check the documentation.");
  CHECK(pod(log).needs_pickles);
  CHECK(!pod("ValueError: odd").needs_pickles);
  CHECK(message("\n \n") == "");
}

TEST_CASE("how a pod ended") {
  const auto failed = [](const char* reason) {
    return read(fmt::format(R"({{"phase": "Failed", "reason": "{}"}})", reason)).end;
  };
  CHECK(read(R"({"phase": "Succeeded"})").end == PodEnd::succeeded);
  CHECK(read(terminated(1, "Error")).end == PodEnd::failed);
  CHECK(read(terminated(1, "Error")).ended_s == 1769846400);
  CHECK(read(terminated(143, "Error")).end == PodEnd::disrupted);
  CHECK(read(terminated(137, "OOMKilled")).end == PodEnd::memory);
  CHECK(failed("Evicted") == PodEnd::disrupted);
  CHECK(failed("OutOfcpu") == PodEnd::disrupted);
  CHECK(failed("UnexpectedAdmissionError") == PodEnd::disrupted);
  CHECK(failed("TopologyAffinityError") == PodEnd::disrupted);
  CHECK(failed("NodeAffinity") == PodEnd::disrupted);
  CHECK(failed("NodePorts") == PodEnd::disrupted);
  CHECK(failed("DeadlineExceeded") == PodEnd::failed);
  CHECK(read(terminated(1, "Error"), R"({"deletionTimestamp": "2026-01-31T08:00:30Z"})").end ==
        PodEnd::disrupted);
  CHECK(read(R"({"phase": "Running", "conditions": [
    {"type": "DisruptionTarget", "status": "True", "reason": "Preemption"}]})")
            .end == PodEnd::disrupted);
}

TEST_CASE("a sidecar that ended is started again") {
  const auto read_with = [](const char* phase, const char* policy, int code, int main_code) {
    Json pod = Json::parse(R"({"metadata": {}, "spec": {
        "initContainers": [{"name": "mount", "image": "m"}, {"name": "prepare", "image": "p"}],
        "containers": [{"name": "main", "image": "i"}]}})");
    const auto status = [](const char* name, int ended_with) {
      Json result = {{"name", name}, {"state", {{"running", Json::object()}}}};
      if (ended_with >= 0) {
        result["state"] = {
            {"terminated", {{"exitCode", ended_with}, {"finishedAt", "2026-01-31T08:00:00Z"}}}};
      }
      return result;
    };
    if (*policy != 0) pod["spec"]["initContainers"][0]["restartPolicy"] = policy;
    pod["status"] = {{"phase", phase},
                     {"initContainerStatuses", {status("mount", code), status("prepare", 0)}},
                     {"containerStatuses", Json::array({status("main", main_code)})}};
    trim_pod(pod);  // what the controller sees of it
    return read_pod(pod);
  };
  CHECK(read_with("Running", "Always", 1, -1).end == PodEnd::none);
  CHECK(read_with("Running", "Always", 143, -1).end == PodEnd::none);
  CHECK(read_with("Pending", "", 1, -1).end == PodEnd::failed);
  // It is told to go in the second in which the program failed.
  const PodFacts failed = read_with("Failed", "Always", 143, 3);
  CHECK(failed.end == PodEnd::failed);
  CHECK(failed.exit_code == 3);
}

TEST_CASE("why a pod waits") {
  const auto waiting = [](const char* reason) {
    return read(fmt::format(R"({{"phase": "Pending", "containerStatuses": [
      {{"state": {{"waiting": {{"reason": "{}", "message": "m"}}}}}}]}})",
                            reason));
  };
  CHECK(waiting("ImagePullBackOff").reason == "ImagePullBackOff");
  CHECK(waiting("ImagePullBackOff").message == "m");
  CHECK(waiting("ContainerCreating").reason.empty());
  const PodFacts pod = read(R"({"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}]})");
  CHECK(pod.reason == "Unschedulable");
  CHECK(pod.message == "no cpu");
  CHECK_FALSE(pod.scheduled);
}

TEST_CASE("a pod with our label that is none of ours") {
  for (const char* odd :
       {"null", "[]", "5", R"({"metadata": 3, "status": "x"})",
        R"({"metadata": {"annotations": {"adaptdl/rank": "2147483647"}}})",
        R"({"metadata": {"annotations": {"adaptdl/rank": 5, "adaptdl/group": "x"}},
            "status": {"conditions": [1, {"type": null}], "containerStatuses": [
              {"state": {"terminated": {"exitCode": "many"}}}, 7]}})"}) {
    const PodFacts pod = read_pod(Json::parse(odd));
    CHECK(pod.owner_uid.empty());
    CHECK(pod.rank == -1);
    CHECK(pod.group == -1);
  }
}
