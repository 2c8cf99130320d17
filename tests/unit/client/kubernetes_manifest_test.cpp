// Job files as the objects that a cluster gets.

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/client/kubernetes/manifest.h"
#include "core/job/job_file.h"

namespace adaptdl::client {
namespace {

constexpr const char* kFile = R"(
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: net-}
spec:
  minReplicas: 1
  maxReplicas: 4
  template:
    spec:
      nodeSelector: {zone: a}
      containers:
      - name: main
        image: repo/base:1
        command: [python3, train.py]
        args: [--lr, 0.1]
        volumeMounts: [{name: data, mountPath: /data}]
      - name: helper
)";

Json read(const std::string& text) {
  return parse_job_file(text, "f").manifest.value();
}

TEST_CASE("the flags for commands change a job file's object") {
  Json job = read(kFile);
  change_manifest(
      job, {.retries = 7, .restartable = true, .accelerators = {"*A100*"}, .role = "trainer"});
  CHECK(job["spec"]["accelerators"] == Json::array({"*A100*"}));
  CHECK(job["spec"]["backoffLimit"] == 7);
  CHECK(job["spec"]["restartable"] == true);
  const Json& containers = job["spec"]["template"]["spec"]["containers"];
  CHECK(containers[0]["env"] == Json::parse(R"([{"name": "ROLE_NAME", "value": "trainer"}])"));
  CHECK_FALSE(containers[1].contains("env"));
}

TEST_CASE("a job file goes to the cluster as it is, with what it needs there") {
  Json job = read(kFile);
  CHECK(manifest_image(job) == "repo/base:1");
  change_manifest(job, {.name_space = "lab",
                        .image = "r/app@sha256:1",
                        .claim = "adaptdl-pvc-1",
                        .tensorboard = "curves",
                        .pull_secret = "s"});
  const Json& pod = job["spec"]["template"]["spec"];
  CHECK(job["metadata"] == Json{{"generateName", "net-"}, {"namespace", "lab"}});
  CHECK(job["spec"]["maxReplicas"] == 4);
  CHECK(pod["nodeSelector"]["zone"] == "a");
  CHECK(pod["imagePullSecrets"] == Json::array({{{"name", "s"}}}));
  REQUIRE(pod["volumes"].size() == 2);
  CHECK(pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "adaptdl-pvc-1");
  CHECK(pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == "adaptdl-tensorboard-curves");
  for (const Json& container : pod["containers"]) {
    CHECK(container["image"] == "r/app@sha256:1");
    CHECK(container["env"].size() == 3);
  }
  const Json& mounts = pod["containers"][0]["volumeMounts"];
  REQUIRE(mounts.size() == 4);
  CHECK(mounts[1] == Json{{"name", "adaptdl-pvc"},
                          {"mountPath", "/adaptdl/checkpoint"},
                          {"subPath", "adaptdl/checkpoint"}});
  CHECK(pod["containers"][0]["args"].size() == 2);

  change_manifest(job,
                  {.name_prefix = "mine-", .arguments = {"-x"}, .replicas = ReplicaRange{1, 2}});
  CHECK(job["metadata"]["generateName"] == "mine-");
  CHECK(pod["containers"][0]["args"] == Json::array({"-x"}));
  CHECK(job["spec"]["maxReplicas"] == 2);
  CHECK_FALSE(job["spec"].contains("requestedReplicas"));
  change_manifest(job, {.replicas = ReplicaRange{3, 3, true}});
  CHECK(job["spec"]["requestedReplicas"] == 3);
  change_manifest(job, {.replicas = ReplicaRange{2, std::nullopt}});
  CHECK(job["spec"]["minReplicas"] == 2);
  CHECK_FALSE(job["spec"].contains("maxReplicas"));
  CHECK_FALSE(job["spec"].contains("requestedReplicas"));
}

TEST_CASE("what is added to must be a list of mappings, or nothing") {
  const auto refusal = [](const std::string& pod) {
    try {
      read(
          "apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\nspec:\n  template:\n"
          "    spec: " +
          pod);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* good : {"{containers: [{}]}", "{containers: [{env: , volumeMounts: []}]}",
                           "{containers: [{name: a}], volumes: , imagePullSecrets: [{name: b}]}"}) {
    CHECK(refusal(good).empty());
  }
  CHECK(refusal("{containers: [a]}").find("f:5: spec.template.spec.containers.0: ") == 0);
  CHECK(refusal("{containers: []}").find("f:5: spec.template.spec.containers: ") == 0);
  for (const char* bad :
       {"{containers: {a: b}}", "{containers: [{env: A=1}]}", "{containers: [{env: [A=1]}]}",
        "{containers: [{volumeMounts: [[]]}]}", "{containers: [{}], volumes: 7}",
        "{containers: [{}], volumes: [null]}", "{containers: [{}], imagePullSecrets: [s]}"}) {
    CAPTURE(bad);
    CHECK(refusal(bad).find("f:5: spec.template.spec.") == 0);
  }
}

TEST_CASE("what is wrong in a job file is named with its place") {
  const std::string job = "apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\nspec: ";
  for (const std::string& wrong :
       {std::string("apiVersion: v1\nkind: AdaptDLJob"), std::string("[]"),
        std::string("apiVersion: adaptdl.petuum.com/v1\nkind: Job"), job + "{template: {spec: {}}}",
        job + "{minReplicas: 3, maxReplicas: 2, template: {spec: {containers: [{name: a}]}}}"}) {
    INFO(wrong);
    CHECK_THROWS_AS(read(wrong), Error);
  }
}

TEST_CASE("a job of this machine as an object") {
  JobSpec spec;
  spec.program = "python3";
  spec.arguments = {"train.py"};
  spec.max_replicas = 2;
  spec.request.cpu_millicores = 500;
  spec.request.gpus = 1;
  CHECK_FALSE(manifest_of(spec)["spec"].contains("accelerators"));
  spec.request.accelerators = {"*A100*", "fast"};
  const Json job = manifest_of(spec);
  CHECK(job["spec"]["accelerators"] == Json::array({"*A100*", "fast"}));
  const Json& container = job["spec"]["template"]["spec"]["containers"][0];
  CHECK(container["command"] == Json::array({"python3"}));
  CHECK(container["args"] == Json::array({"train.py"}));
  CHECK(container["resources"]["requests"]["cpu"] == "500m");
  CHECK(container["resources"]["limits"]["nvidia.com/gpu"] == "1");
  CHECK(job["spec"]["maxReplicas"] == 2);
  CHECK(job["metadata"]["generateName"] == "python3-");
}

}  // namespace
}  // namespace adaptdl::client
