// A Kubernetes cluster's objects as commands show them.

#include <doctest/doctest.h>

#include "cli/frame/cluster_flags.h"
#include "cli/frame/names.h"
#include "cli/show/jobs.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/client/cluster_choice.h"
#include "core/client/kubernetes/view.h"

namespace adaptdl::cli {
namespace {

constexpr const char* kUid = "0f8fad5b-d9cb-469f-a165-70867728950e";

Json sample(Json spec = Json::object(), Json status = nullptr) {
  Json object = {{"metadata",
                  {{"name", "net"},
                   {"namespace", "lab"},
                   {"uid", kUid},
                   {"creationTimestamp", "2026-01-31T08:00:00Z"}}},
                 {"spec", std::move(spec)}};
  object["spec"]["template"] = {{"spec", {{"containers", {{{"image", "repo/net:1"}}}}}}};
  if (!status.is_null()) object["status"] = std::move(status);
  return object;
}

TEST_CASE("jobs of every phase") {
  JobView view = kubernetes_view(sample());
  CHECK(view.phase == "Pending");
  CHECK(view.trouble == "");
  CHECK(view.program == "repo/net:1");
  CHECK_FALSE(view.max_replicas);
  CHECK_FALSE(view.ended());
  CHECK(job_row(view, *parse_rfc3339_s("2026-01-31T08:01:00Z"), true).age == "1m00s");

  view =
      kubernetes_view(sample({{"suspend", true}}, {{"phase", "Pending"}, {"reason", "Suspended"}}));
  CHECK(view.phase == "Suspended");
  CHECK(view.trouble == "");

  view = kubernetes_view(sample({{"maxReplicas", 4}}, {{"phase", "Starting"},
                                                       {"reason", "ImagePullBackOff"},
                                                       {"allocation", {"n2", "n1", "n2"}},
                                                       {"readyReplicas", 1}}));
  const JobRow row = job_row(view, view.submitted_s, true);
  CHECK(row.status == "Starting (ImagePullBackOff)");
  CHECK(row.replicas == "1 -> 3");
  CHECK(row.places == "n1,n2*2");
  CHECK(job_json(view)["nodes"].size() == 3);
  CHECK(job_json(view)["namespace"] == "lab");

  const Json hints = {{"globalBatchSize", 64},
                      {"trainMetrics",
                       {{"step", 50.0},
                        {"epoch", 1.5},
                        {"loss", 0.25},
                        {"progress", 30.0},
                        {"progressTotal", 120.0},
                        {"secondsLeft", 61.0},
                        {"gpuBusyPercent", 87.4},
                        {"gpuPowerWatts", 2045.0},
                        {"goodput", 250.0}}}};
  view = kubernetes_view(sample(
      {}, {{"phase", "Running"}, {"allocation", {"n1"}}, {"readyReplicas", 1}, {"train", hints}}));
  const JobRow training = job_row(view, view.submitted_s, true);
  CHECK(training.step == "50");
  CHECK(training.loss == "0.25");
  CHECK(training.done == "25%");
  CHECK(training.left == "1m01s");
  CHECK(training.goodput == "250/s");
  CHECK(training.batch == "64");
  CHECK(training.gpus == "87 % busy, 2045 W");
  view = kubernetes_view(sample({}, {{"phase", "Pending"}, {"train", hints}}));
  CHECK(job_row(view, view.submitted_s, true).loss == "-");
  CHECK(job_row(view, view.submitted_s, true).gpus.empty());

  view = kubernetes_view(
      sample({{"cancel", true}}, {{"phase", "Failed"},
                                  {"reason", "Cancelled"},
                                  {"completionTimestamp", "2026-01-31T09:00:00Z"}}));
  CHECK(view.phase == "Cancelled");
  CHECK(view.ended());
  CHECK(view.cancelled);
  CHECK(job_row(view, 0, false).status == "Cancelled");
  CHECK(job_row(view, 0, false).replicas == "-");

  // As AdaptDL's own scheduler leaves one whose node went: no time of its end.
  view = kubernetes_view(sample({}, {{"phase", "Failed"}, {"reason", "Invalid"}}));
  CHECK(view.ended_s == view.submitted_s);
  CHECK(job_row(view, 0, false).status == "Failed (Invalid)");
}

TEST_CASE("whose pod it is") {
  const std::string uid = kUid;
  CHECK(job_of_pod("net-" + uid + "-0-11") == "net");
  CHECK(job_of_pod("my-net-2-" + uid + "-3-1") == "my-net-2");
  for (const std::string& other :
       {std::string(), std::string("net"), "net-" + uid, "net-" + uid + "-0", uid + "-0-0",
        "-" + uid + "-0-0", "net-" + uid + "-a-0", "net-" + uid + "--0"}) {
    INFO(other);
    CHECK(job_of_pod(other) == "");
  }
}

TEST_CASE("events of jobs and their pods") {
  Json event = {{"metadata", {{"creationTimestamp", "2026-01-31T08:00:00Z"}}},
                {"involvedObject", {{"kind", "AdaptDLJob"}, {"name", "net"}}},
                {"reason", "Starting"},
                {"message", "group 0"},
                {"type", "Normal"}};
  auto found = kubernetes_event(event);
  REQUIRE(found);
  CHECK(found->job == "net");
  CHECK(rfc3339(found->time_s) == "2026-01-31T08:00:00.000Z");
  event["lastTimestamp"] = "2026-01-31T08:00:05Z";
  event["type"] = "Warning";
  event["involvedObject"] = {{"kind", "Pod"}, {"name", std::string("net-") + kUid + "-0-0"}};
  const int64_t before = found->id;
  found = kubernetes_event(event);
  REQUIRE(found);
  CHECK(found->job == "net");
  CHECK(found->warning);
  CHECK(found->id > before);
  event["involvedObject"]["name"] = "stranger";
  CHECK_FALSE(kubernetes_event(event));
  CHECK_FALSE(kubernetes_event(Json::array()));
}

Arguments words(std::vector<std::string> line) {
  line.insert(line.begin(), "ls");
  return parse(line, [](const char*) -> const char* { return nullptr; }).arguments;
}

TEST_CASE("which cluster is meant") {
  const auto name = [](std::vector<std::string> line) {
    return chosen_cluster(words(std::move(line))).name;
  };
  CHECK(name({"--cluster", "local"}) == "local");
  CHECK(name({"--cluster", "lab"}) == "lab");
  CHECK(name({"--context", "lab"}) == "lab");
  CHECK(name({"-n", "team", "--cluster", "kubernetes"}) == "kubernetes");
  CHECK(name({"--kubeconfig", "f"}) == "kubernetes");
  const ClusterChoice choice =
      chosen_cluster(words({"-n", "team", "--kubeconfig", "f", "--context", "lab"}));
  CHECK(choice.kubernetes.context == "lab");
  CHECK(choice.kubernetes.kubeconfig == "f");
  CHECK(choice.kubernetes.name_space == "team");
  CHECK_THROWS_AS(name({"--cluster", "local", "-n", "team"}), UsageError);
  CHECK_THROWS_AS(name({"--cluster", "lab", "--context", "other"}), UsageError);
}

}  // namespace
}  // namespace adaptdl::cli
