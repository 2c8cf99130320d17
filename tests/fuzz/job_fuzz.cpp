// adaptdljob.yaml, in both forms; and a job's spec as JSON.

#include "core/base/error.h"
#include "core/job/job_file.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

// What is accepted must read back as it was.
void check_round_trip(const JobSpec& spec) {
  ADAPTDL_CHECK(!spec.program.empty());
  const Json json = parse_json(dump_json(to_json(spec)), "spec");
  ADAPTDL_CHECK(job_spec_from_json(json, "spec") == spec);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  try {
    if (text.starts_with("{\"format\"")) {
      check_round_trip(job_spec_from_json(parse_json(text, "spec"), "spec"));
    } else {
      JobFile job = parse_job_file(text, "adaptdljob.yaml");
      ADAPTDL_CHECK(job.command_arguments <= job.spec.arguments.size());
      replace_arguments(job, {"x"});
      if (job.only_in_cluster.empty()) check_round_trip(job.spec);
    }
  } catch (const Error&) {
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {R"(name: digits
archive: train.pt
args: [-v]
directory: sub
replicas: 1:8
requested_replicas: 2
env: {A: "1"}
set: {optimizer: {lr: 0.1}}
data: [a, /b]
tensorboard: t
retries: 1
grace_s: 2.5
resources: {cpu: 500m, memory: 1.5Gi, gpu: 1, accelerators: ["*A100*", b]}
checkpoint: {size: 1e9}
)",
       "command: python3 train.py\nreplicas: \"2:\"\npreemptible: false\n",
       R"yaml(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: x-, labels: {a: b}}
spec:
  minReplicas: 1
  maxReplicas: 4
  template:
    spec:
      containers:
      - image: i
        command: [python3, $(A), $$, "$(B"]
        args: [x]
        workingDir: /root
        env: [{name: A, value: "$(A)"}]
        resources: {requests: {cpu: 2}, limits: {memory: 40G, nvidia.com/gpu: 1}}
      volumes: []
)yaml",
       R"({"format":1,"kind":"command","program":"a","arguments":["b"],"environment":{"A":"1"},)"
       R"("settings":[],"resources":{"cpu_millicores":1},"grace_s":1.5,"name":"x"})"},
      {"Ki",
       "Ei",
       "m",
       "n",
       "e99",
       "e-99",
       "$(",
       "$$",
       ")",
       "kind: AdaptDLJob\n",
       "null",
       "[]",
       "{}",
       ": ",
       "- ",
       "\n",
       "\\0",
       "program: x\n",
       "command: [a]\n",
       "-",
       "1:",
       "0",
       "99999999999999999999",
       "&a ",
       "*a",
       "..",
       "/"}};
}
