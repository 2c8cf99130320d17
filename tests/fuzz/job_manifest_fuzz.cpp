// A job file in AdaptDL's form, and what `adaptdl submit` and `adaptdl cp` make of it.

#include "core/base/error.h"
#include "core/client/kubernetes/manifest.h"
#include "core/client/kubernetes/storage.h"
#include "core/job/job_file.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::client;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(fuzz_text(data, size));
  Json job;
  try {
    const JobFile file = parse_job_file(text, "job.yaml");
    if (!file.manifest) return 0;  // our own form
    job = *file.manifest;
  } catch (const Error&) {
    return 0;  // refused
  }
  // What was accepted can be changed in every way, and its storage is found again.
  manifest_image(job);
  Json bare = job;
  change_manifest(bare, {});
  ADAPTDL_CHECK(bare["kind"] == "AdaptDLJob" && bare["metadata"].is_object());
  ManifestChanges changes;
  changes.name_prefix = "x-";
  changes.name_space = "lab";
  changes.arguments = {"--epochs", "3"};
  changes.replicas = ReplicaRange{1, 4};
  changes.accelerators = {"*A100*"};
  changes.image = "repo/net:1";
  changes.claim = "adaptdl-pvc-1";
  changes.tensorboard = "curves";
  changes.pull_secret = "creds";
  change_manifest(job, changes);
  ADAPTDL_CHECK(manifest_image(job) == "repo/net:1");
  ADAPTDL_CHECK(storage_claim(job) == "adaptdl-pvc-1");
  copy_pod(job, storage_claim(job), "uid");
  dump_json(job);
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: net-, labels: {team: a}}
spec:
  minReplicas: 1
  maxReplicas: 8
  accelerators: ["*A100*", fast]
  preemptible: true
  template:
    metadata: {annotations: {a: b}}
    spec:
      securityContext: {runAsUser: 5, fsGroup: 9}
      imagePullSecrets: [{name: s}]
      containers:
      - name: main
        command: [python3, /root/main.py]
        args: [--fast]
        env:
        - {name: A, value: "1"}
        - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
        resources: {limits: {nvidia.com/gpu: 1}}
      volumes:
      - {name: data, hostPath: {path: /data}}
      - name: more
        persistentVolumeClaim: {claimName: c}
)",
           R"({"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "status": {"phase": 3},
"spec": {"template": {"spec": {"containers": [{"image": "i"}, {}], "nodeSelector": {"a": "b"},
"tolerations": [{"operator": "Exists"}]}}}})"},
          {"containers:",
           "metadata:",
           "env:",
           "volumeMounts:",
           "volumes:",
           "image:",
           "args:",
           "imagePullSecrets:",
           "securityContext:",
           "null",
           "~",
           "[]",
           "{}",
           "[7]",
           "[null]",
           "7",
           "1.5",
           "true",
           "\"\"",
           "- ",
           "    ",
           "\n",
           "name:",
           "adaptdl-pvc",
           "template:",
           "spec:",
           "minReplicas:",
           "-1",
           "&a",
           "*a",
           "<<:"}};
}
