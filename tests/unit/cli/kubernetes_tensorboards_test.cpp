// TensorBoard instances, on the fake of an API server.

#include <atomic>
#include <doctest/doctest.h>
#include <future>
#include <signal.h>
#include <thread>
#include <unistd.h>

#include "cli/commands/tensorboard_options.h"
#include "cli/frame/names.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/kubernetes/connection.h"
#include "core/client/kubernetes/tensorboard_objects.h"
#include "core/client/tensorboards.h"
#include "tests/unit/client/kubernetes_choice.h"
#include "tests/unit/kube/fake_api.h"

namespace adaptdl::cli {
namespace {

class Lab {
 public:
  Lab()
      : api({{kAdaptDLJobs, "AdaptDLJob"},
             {kube::kClaims, "PersistentVolumeClaim"},
             {kube::kDeployments, "Deployment"},
             {kube::kServices, "Service"},
             {kube::kStorageClasses, "StorageClass", false, {"provisioner"}}}) {
    const ClusterChoice choice = test_choice(folder_, "server: " + api.config().server, "team");
    instances = open_kubernetes_tensorboards(choice, false);
    cluster.emplace(choice, false);
  }

  std::string create(const std::string& name, std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"tensorboard", "create", name});
    const auto nothing = [](const char*) -> const char* { return nullptr; };
    return instances->create(name, tensorboard_options(parse(words, nothing).arguments));
  }
  std::optional<Json> find(const kube::Resource& kind) {
    return cluster->client().find(kind.in("team", "adaptdl-tensorboard-curves"));
  }
  // As somebody else leaves it behind.
  void put(const kube::Resource& kind, const std::string& name, Json labels, Json spec) {
    api.put(kind.in("team"),
            {{"apiVersion", "v1"},
             {"kind", name},
             {"metadata",
              {{"name", "adaptdl-tensorboard-curves"},
               {"labels", std::move(labels)},
               {"ownerReferences",
                {{{"apiVersion", "v1"}, {"kind", "Deployment"}, {"name", "gone"}, {"uid", "1"}}}}}},
             {"spec", std::move(spec)}});
  }

  kube::FakeApi api;
  std::unique_ptr<TensorBoards> instances;
  std::optional<KubernetesConnection> cluster;

 private:
  const TemporaryDirectory folder_;
};

const Json kLabels = {{kTensorboardLabel, "curves"}};
const Json kSize = {{"resources", {{"requests", {{"storage", "3Gi"}}}}}};

template <typename Act>
std::string problem(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an instance is three objects, of which the Deployment owns the others") {
  Lab lab;
  CHECK(lab.instances->list().rows.empty());
  CHECK(lab.create("curves", {"--nodeport", "--size", "5Gi", "--image", "own:1"}) == "");
  const auto deployment = lab.find(kube::kDeployments);
  REQUIRE(deployment);
  const Json& container = (*deployment)["spec"]["template"]["spec"]["containers"][0];
  CHECK((*deployment)["spec"]["template"]["spec"]["tolerations"][0]["key"] ==
        "petuum.com/nodegroup");
  CHECK(container["image"] == "own:1");
  CHECK(container["command"] == Json::array({"tensorboard"}));
  CHECK(container["args"][0] == "--bind_all");  // of IPv4 and of IPv6
  for (const auto& kind : {kube::kServices, kube::kClaims}) {
    CAPTURE(kind.plural);
    const auto object = lab.find(kind);
    REQUIRE(object);
    const Json owner = (*object)["metadata"]["ownerReferences"][0];
    CHECK(owner["apiVersion"] == "apps/v1");
    CHECK(owner["uid"] == (*deployment)["metadata"]["uid"]);
  }
  CHECK((*lab.find(kube::kServices))["spec"]["type"] == "NodePort");
  const TensorBoardList list = lab.instances->list();
  CHECK(list.rows == std::vector<std::vector<std::string>>{{"curves", "<none>", "5Gi", "0/0"}});
  CHECK(list.records[0]["ready"] == false);
  CHECK(problem([&] { lab.create("curves"); }).find("already") != std::string::npos);
  CHECK(lab.instances->removal("curves").find("all that jobs wrote") != std::string::npos);
  lab.instances->remove("curves");
  for (const auto& kind : {kube::kDeployments, kube::kServices, kube::kClaims}) {
    CHECK_FALSE(lab.find(kind));
  }
  CHECK(problem([&] { lab.instances->removal("curves"); }).find("create curves") !=
        std::string::npos);
}

TEST_CASE("what an instance left behind is listed, taken over or deleted") {
  Lab lab;
  lab.put(kube::kClaims, "PersistentVolumeClaim", kLabels, kSize);
  lab.put(kube::kServices, "Service", kLabels, {{"type", "ClusterIP"}});
  CHECK(lab.instances->list().rows[0] ==
        std::vector<std::string>{"curves", "<none>", "3Gi", "0/0"});
  CHECK(lab.create("curves", {"--nodeport"}).find("which already existed") != std::string::npos);
  CHECK((*lab.find(kube::kServices))["spec"]["type"] == "NodePort");
  const Json owners = (*lab.find(kube::kClaims))["metadata"]["ownerReferences"];
  REQUIRE(owners.size() == 1);
  CHECK(owners[0]["apiVersion"] == "apps/v1");
  lab.cluster->client().remove(kube::kDeployments.in("team", "adaptdl-tensorboard-curves"));
  lab.instances->removal("curves");
  lab.instances->remove("curves");
  CHECK_FALSE(lab.find(kube::kClaims));
}

TEST_CASE("somebody's claim is used and stays; somebody's Service is in the way") {
  Lab lab;
  lab.put(kube::kClaims, "PersistentVolumeClaim", Json::object(), kSize);
  CHECK(lab.create("curves") != "");
  CHECK(lab.instances->removal("curves").find("wrote") == std::string::npos);
  lab.instances->remove("curves");
  CHECK(lab.find(kube::kClaims));
  CHECK_FALSE(lab.find(kube::kDeployments));
  lab.put(kube::kServices, "Service", Json::object(), Json::object());
  CHECK(problem([&] { lab.create("curves", {"--nodeport"}); }).find("choose another name") !=
        std::string::npos);
  CHECK_FALSE(lab.find(kube::kDeployments));  // what was made for it has gone again
  CHECK(lab.find(kube::kServices));
  lab.create("curves");  // needs none
}

TEST_CASE("one that jobs write to is not deleted") {
  Lab lab;
  lab.create("curves");
  const auto job = [&](const std::string& name, const Json& status) {
    lab.api.put(
        kAdaptDLJobs.in("team"),
        {{"apiVersion", "adaptdl.petuum.com/v1"},
         {"kind", "AdaptDLJob"},
         {"metadata", {{"name", name}}},
         {"spec",
          {{"template",
            {{"spec",
              {{"volumes",
                {{{"name", "a"}, {"emptyDir", Json::object()}},
                 {{"name", "adaptdl-tensorboard"},
                  {"persistentVolumeClaim", {{"claimName", "adaptdl-tensorboard-curves"}}}}}}}}}}}},
         {"status", status}});
  };
  job("done", {{"phase", "Succeeded"}, {"completionTimestamp", "2026-01-31T08:00:00Z"}});
  CHECK(problem([&] { lab.instances->removal("curves"); }) == "");
  job("busy", {{"phase", "Running"}});
  const std::string told = problem([&] { lab.instances->removal("curves"); });
  CHECK(told.find("in use by busy;") != std::string::npos);
}

TEST_CASE("one whose jobs' definition is gone with AdaptDL can be deleted") {
  Lab lab;
  lab.create("curves");
  lab.api.set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.path.find("/adaptdljobs") == std::string::npos) return std::nullopt;
    return text_response(404, "404 page not found");
  });
  CHECK(lab.instances->removal("curves").find("curves") != std::string::npos);
}

TEST_CASE("what is still being removed is waited for, not taken over") {
  Lab lab;
  lab.put(kube::kClaims, "PersistentVolumeClaim", kLabels, kSize);
  kube::Client& client = lab.cluster->client();
  const kube::Resource place = kube::kClaims.in("team", "adaptdl-tensorboard-curves");
  const auto set_finalizers = [&](const Json& finalizers) {
    client.patch(place, kube::PatchKind::merge, {{"metadata", {{"finalizers", finalizers}}}});
  };
  set_finalizers({"kubernetes.io/pvc-protection"});
  client.remove(place);
  const std::string old = client.get(place)["metadata"]["uid"];
  auto ends = std::async(std::launch::async, [&] {  // as the last pod of before does
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    set_finalizers(Json());
    lab.api.erase(place);
  });
  CHECK(lab.create("curves") == "");
  ends.get();
  const Json claim = client.get(place);
  CHECK(claim["metadata"]["uid"] != old);
  CHECK_FALSE(claim["metadata"].contains("deletionTimestamp"));
}

TEST_CASE("a shown instance outlives an API server that does not answer for a while") {
  Lab lab;
  lab.create("curves");
  const Json ready = {{{"type", "Ready"}, {"status", "True"}}};
  lab.api.put(kube::kPods.in("team"), {{"apiVersion", "v1"},
                                       {"kind", "Pod"},
                                       {"metadata", {{"name", "p"}, {"labels", kLabels}}},
                                       {"spec", Json::object()},
                                       {"status", {{"conditions", ready}}}});
  std::atomic<int> looks = 0;
  lab.api.set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    if (request.path.find("/pods") == std::string::npos || looks++ == 0) return std::nullopt;
    return kube::status_response(403, "Forbidden", "not now");  // one that is not asked again
  });
  auto shown = std::async(std::launch::async,
                          [&] { lab.instances->proxy("curves", "127.0.0.1", std::nullopt); });
  const TimePoint begun = Monotonic::now();
  while (looks < 2 && seconds_since(begun) < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(looks >= 2);
  CHECK(shown.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
  ::kill(::getpid(), SIGTERM);  // which it catches
  CHECK(problem([&] { shown.get(); }) == "");
}

TEST_CASE("why an instance does not serve") {
  CHECK(why_not_ready(Json::object()) == "its pod is new");
  Json pod = {
      {"status",
       {{"conditions", {{{"type", "PodScheduled"}, {"status", "False"}, {"message", "full"}}}}}}};
  CHECK(why_not_ready(pod) == "full");
  pod["status"] = {
      {"containerStatuses",
       {{{"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "m"}}}}}}}}};
  CHECK(why_not_ready(pod) == "ImagePullBackOff: m");
  pod["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}}};
  CHECK(why_not_ready(pod) == "");
}

}  // namespace adaptdl::cli
