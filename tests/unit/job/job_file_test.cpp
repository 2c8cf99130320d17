#include "core/job/job_file.h"

#include <cstdlib>
#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/job/job_fields.h"
#include "tests/unit/base/expect_error.h"

namespace job_file_test {

using namespace adaptdl;

namespace {

using Kind = JobSpec::Kind;
using Texts = std::vector<std::string>;

// For one machine.
JobFile parse(const std::string& text) {
  JobFile job = parse_job_file(text, "job.yaml");
  require_one_machine(job);
  return job;
}

const std::string kFull = R"(name: digits
archive: models/train.pt
args: [--verbose, "3"]
directory: sub/./x/..
replicas: 1:8
requested_replicas: 2
preemptible: false
env: {OMP: 1, EMPTY: ""}
set:
  optimizer.lr: 0.1
  data: {prefetch_threads: 2}
data: [images.npy, /big/set]
tensorboard: board
retries: 5
grace_s: 2.5
resources: {cpu: 1500m, memory: 2Gi, gpu: 1, accelerators: ["*A100*", fast]}
checkpoint: {size: 10G}
)";

// An AdaptDLJob with `container` inside its container, `spec` in its spec.
std::string adaptdl_job(const std::string& container, const std::string& spec = "") {
  return "apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\nmetadata: {generateName: "
         "x-}\nspec:\n" +
         spec + "  template:\n    spec:\n      containers:\n      - name: main\n" + container;
}

}  // namespace

TEST_CASE("the short form sets every field") {
  const JobFile job = parse(kFull);
  JobSpec spec;
  spec.name_prefix = "digits-";
  spec.kind = Kind::archive;
  spec.program = "models/train.pt";
  spec.arguments = {"--verbose", "3"};
  spec.directory = "sub";
  spec.settings = {"optimizer.lr=0.1", "data.prefetch_threads=2"};
  spec.environment = {{"EMPTY", ""}, {"OMP", "1"}};
  spec.min_replicas = 1;
  spec.max_replicas = 8;
  spec.requested_replicas = 2;
  spec.preemptible = false;
  spec.request = {1500, int64_t{2} << 30, 1, {"*A100*", "fast"}};
  spec.data = {"images.npy", "/big/set"};
  spec.checkpoint_size = 10'000'000'000;
  spec.tensorboard = "board";
  spec.retries = 5;
  spec.grace_s = 2.5;
  CHECK(to_json(job.spec) == to_json(spec));
  CHECK(job.command_arguments == 0);
  CHECK(job.ignored.empty());
  CHECK(job.program_place == "job.yaml:2: archive");
}

TEST_CASE("the short form leaves the rest as it is by default") {
  const JobFile job = parse("command: [python3, train.py]\n");
  JobSpec spec;
  spec.program = "python3";
  spec.arguments = {"train.py"};
  spec.max_replicas = 1;  // it is a command
  CHECK(to_json(job.spec) == to_json(spec));
  CHECK(parse("program: ./train").spec.kind == Kind::executable);
  CHECK(parse("command: [a]\nresources:\ncheckpoint:\nenv:\nset: {}").spec.environment.empty());
  CHECK(parse("command: [a]\ndata: x").spec.data == Texts{"x"});
  CHECK(parse("command: [a]\nresources: {accelerators: fast}").spec.request.accelerators ==
        Texts{"fast"});
}

TEST_CASE("arguments on a command line replace those of the file, not the command's") {
  JobFile job = parse("command: [python3, train.py]\nargs: [--lr, 1]\n");
  CHECK(job.spec.arguments == Texts{"train.py", "--lr", "1"});
  replace_arguments(job, {"--lr=2"});
  CHECK(job.spec.arguments == Texts{"train.py", "--lr=2"});

  JobFile shell = parse("command: echo $1; exec true\nargs: [a b]\n");
  CHECK(shell.spec.program == "/bin/sh");
  CHECK(shell.spec.arguments == Texts{"-c", "echo $1; exec true", "sh", "a b"});
  replace_arguments(shell, {"c"});
  CHECK(shell.spec.arguments == Texts{"-c", "echo $1; exec true", "sh", "c"});
}

TEST_CASE("replicas") {
  const auto bounds = [](const char* text) {
    const JobSpec spec = parse(fmt::format("command: [a]\nreplicas: {}\n", text)).spec;
    return fmt::format("{} {} {}", spec.min_replicas, spec.max_replicas.value_or(-1),
                       spec.requested_replicas.value_or(-1));
  };
  CHECK(bounds("2") == "2 2 2");
  CHECK(bounds("1:8") == "1 8 -1");
  CHECK(bounds("0:8") == "0 8 -1");
  CHECK(bounds("'2:'") == "2 -1 -1");
  CHECK(bounds("'3:3'") == "3 3 -1");
  for (const char* wrong :
       {"0", "-1", "':'", ":2", "3:2", "0:0", "a", "1:2:3", "1.5", "'1: '", "99999999999"}) {
    CAPTURE(wrong);
    CHECK_ERROR(bounds(wrong), "job.yaml:2: replicas");
  }
}

TEST_CASE("mistakes in the short form are told by their place") {
  struct Case {
    const char *text, *part;
  };
  const Case cases[] = {
      {"", "job.yaml"},
      {"name: a", "give one of archive, program, command"},
      {"- a", "a mapping"},
      {"command: [a]\nreplica: 2", "job.yaml:2: replica: unknown key; did you mean replicas?"},
      {"command: [a]\nresources: {gpus: 2}", "did you mean gpu?"},
      {"command: [a]\ncheckpoint: {siz: 2}", "did you mean size?"},
      {"command: [a]\narchive: b", "give one of archive, program, command"},
      {"command: []", "command: has 0 items"},
      {"command: ''", "command: is empty"},
      {"command: ['']", "command: is empty"},
      {"command: {a: b}", "must be text"},
      {"command: [\"a\\0b\"]", "zero byte"},
      {"command: [a]\nargs: b", "args: is b; it must be a list"},
      {"command: [a]\nname: My_Job", "name: My_Job is not a valid job name"},
      {"command: [a]\nname: ../x", "is not a valid job name"},
      {"command: [a]\nname: aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff",
       "is too long; at most 57"},
      {"command: [a]\ndirectory: /a", "is not in the project"},
      {"command: [a]\ndirectory: a/../../b", "is not in the project"},
      {"command: [a]\nset: {a: 1}", "a command has no settings"},
      {"archive: a\nset: {a: [1]}", "put it in quotes"},
      {"archive: a\nset: {a=b: 1}", "not a valid setting key"},
      {"archive: a\nset: {a: }", "set.a: is empty"},
      {"command: [a]\nenv: {a=b: 1}", "not a valid variable name"},
      {"command: [a]\nenv: {a: [1]}", "env.a: is a list; it must be text"},
      {"command: [a]\nenv: [a]", "env: is a list"},
      {"command: [a]\ndata: ['']", "data: a path is empty"},
      {"command: [a]\nresources: {cpu: 0}", "resources.cpu: must be above 0"},
      {"command: [a]\nresources: {memory: 2GB}",
       "job.yaml:2: resources.memory: 2GB is not a quantity"},
      {"command: [a]\nresources: {gpu: 0.5}", "resources.gpu: is 0.5"},
      {"command: [a]\nresources: {accelerators: ['']}", "resources.accelerators: a name is empty"},
      {"command: [a]\ncheckpoint: {size: 0}", "checkpoint.size: must be above 0"},
      {"command: [a]\nretries: -1", "retries: is -1"},
      {"command: [a]\ngrace_s: -1", "grace_s: is -1"},
      {"command: [a]\npreemptible: no", "true or false"},
      {"command: [a]\ntensorboard: a/b", "not a valid TensorBoard instance name"},
      {"command: [a]\nreplicas: 1:2\nrequested_replicas: 3", "requested_replicas: is 3"},
      {"command: [a]\nkind: Job", "apiVersion: is missing"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK_ERROR(parse(c.text), c.part);
  }
}

TEST_CASE("an AdaptDLJob is read, and what one machine has no use for is named") {
  const JobFile job = parse(R"yaml(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata:
  generateName: deepspeech2-
  namespace: team
spec:
  minReplicas: 2
  maxReplicas: 4
  preemptible: false
  template:
    metadata: {labels: {a: b}}
    spec:
      terminationGracePeriodSeconds: 60
      containers:
      - name: main
        image: registry/x
        command: [python3, train.py, --cuda]
        args: ["--lr=$(LR)", $$(LR), $(NOBODY), a$b]
        workingDir: /root/code
        env:
        - {name: LR, value: "0.12"}
        - {name: TWICE, value: "$(LR)$(LR)"}
        - {name: EARLY, value: "$(LATE)"}
        - {name: LATE, value: 1}
        - {name: NONE}
        resources:
          requests: {cpu: 10, memory: 1Gi, ephemeral-storage: 1Gi}
          limits: {nvidia.com/gpu: 1, memory: "40G"}
        volumeMounts: [{name: data, mountPath: /mnt}]
      - name: helper
        image: y
      volumes: [{name: data, hostPath: {path: /mnt}}]
      nodeSelector: {a: b}
status: {phase: Running}
)yaml");
  JobSpec spec;
  spec.name_prefix = "deepspeech2-";
  spec.program = "python3";
  spec.arguments = {"train.py", "--cuda", "--lr=0.12", "$(LR)", "$(NOBODY)", "a$b"};
  spec.directory = "/root/code";
  spec.environment = {
      {"LR", "0.12"}, {"TWICE", "0.120.12"}, {"EARLY", "$(LATE)"}, {"LATE", "1"}, {"NONE", ""}};
  spec.min_replicas = 2;
  spec.max_replicas = 4;
  spec.preemptible = false;
  spec.request = {10'000, 40'000'000'000, 1};
  spec.grace_s = 60;
  CHECK(to_json(job.spec) == to_json(spec));
  CHECK(job.command_arguments == 2);
  CHECK(job.in_image);
  CHECK(job.program_place == "job.yaml:17: spec.template.spec.containers.0.command");
  const std::string at = "spec.template.spec.", container = at + "containers.0.";
  CHECK(job.ignored ==
        Texts{"metadata.namespace", container + "resources.requests.ephemeral-storage",
              container + "image", container + "volumeMounts", at + "containers.1", at + "volumes",
              at + "nodeSelector", "spec.template.metadata", "status"});
}

TEST_CASE("an AdaptDLJob without bounds has AdaptDL's defaults") {
  const JobSpec spec = parse(adaptdl_job("        command: [a]\n")).spec;
  CHECK(spec.min_replicas == 0);
  CHECK_FALSE(spec.max_replicas);
  CHECK_FALSE(spec.requested_replicas);
  CHECK(spec.preemptible);
  CHECK(spec.name_prefix == "x-");
}

TEST_CASE("an AdaptDLJob's further keys are read, or named") {
  const JobFile job =
      parse(adaptdl_job("        command: [a]\n",
                        "  maxReplicas: 4\n  requestedReplicas: 3\n  backoffLimit: 7\n"
                        "  ttlSecondsAfterFinished: 60\n  suspend: false\n"
                        "  accelerators: ['*A100*']\n"));
  CHECK(job.spec.request.accelerators == Texts{"*A100*"});
  CHECK(job.spec.requested_replicas == 3);
  CHECK(job.spec.retries == 7);
  CHECK(job.ignored == Texts{"spec.suspend", "spec.ttlSecondsAfterFinished"});
  CHECK_ERROR(
      parse(adaptdl_job("        command: [a]\n", "  maxReplicas: 2\n  requestedReplicas: 3\n")),
      "requested_replicas: is 3");
}

TEST_CASE("an AdaptDLJob that one machine cannot run is a cluster's all the same") {
  const JobFile job = parse_job_file(
      adaptdl_job("        image: x\n", "  minReplicas: 2\n") + "status: {phase: Running}\n",
      "job.yaml");
  CHECK(job.only_in_cluster.find("only the image defines what this container runs") !=
        std::string::npos);
  CHECK(job.spec.name_prefix == "x-");
  CHECK(job.spec.min_replicas == 2);
  REQUIRE(job.manifest);
  CHECK_FALSE(job.manifest->contains("status"));
  CHECK((*job.manifest)["spec"]["template"]["spec"]["containers"][0]["image"] == "x");
  CHECK_FALSE(parse_job_file("command: [a]", "job.yaml").manifest);
}

TEST_CASE("what only a cluster can give is refused with that reason") {
  struct Case {
    std::string text;
    const char* part;
  };
  const std::string at = "spec.template.spec.containers.0.";
  const Case cases[] = {
      {adaptdl_job("        image: x\n"), "only the image defines what this container runs"},
      {adaptdl_job("        comand: [a]\n"), "did you mean comand as the command?"},
      {adaptdl_job("        command: []\n"), "only the image defines what this container runs"},
      {adaptdl_job("        command: a\n"), "it must be a list"},
      {adaptdl_job("        command: [a, $(ADAPTDL_SHARE_PATH)]\n"), "'... $ADAPTDL_SHARE_PATH'"},
      {adaptdl_job("        command: [a]\n        envFrom: []\n"), "envFrom: takes variables"},
      {adaptdl_job("        command: [a]\n        env: [{name: A, valueFrom: {}}]\n"),
       "env.0.valueFrom: takes the value"},
      {adaptdl_job("        command: [a]\n        env: [{nam: A}]\n"), "env.0.name: is missing"},
      {adaptdl_job("        command: [a]\n        env: [{name: A, value: [1]}]\n"), "must be text"},
      {adaptdl_job("        command: [a]\n        env: [{name: A, vlue: 1}]\n"),
       "did you mean value?"},
      {adaptdl_job("        command: [a]\n        resources: {limits: {cpu: 2x}}\n"),
       "limits.cpu: 2x is not a quantity"},
      {adaptdl_job("        command: [a]\n        resources: {limits: {nvidia.com/gpu: 500m}}\n"),
       "not a whole number of GPUs"},
      {adaptdl_job("        command: [a]\n        resources: {limits: {nvidia.com/gpu: 4Gi}}\n"),
       "from 0 to 1024"},
      {adaptdl_job("        command: [a]\n", "  maxReplica: 2\n"), "did you mean maxReplicas?"},
      {adaptdl_job("        command: [a]\n", "  maxReplicas: 0\n"), "an integer from 1"},
      {adaptdl_job("        command: [a]\n", "  minReplicas: 3\n  maxReplicas: 2\n"),
       "at least minReplicas, 3"},
      {"apiVersion: apps/v1\nkind: Deployment\n", "adaptdl.petuum.com/v1"},
      {"apiVersion: adaptdl.petuum.com/v1\nkind: Adaptdljob\n", "AdaptDLJob"},
      {"apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\n", "spec: is missing"},
      {"apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\nspec: {}\n", "template: is missing"},
      {"apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\nmetadata: {name: A}\nspec: {}\n",
       "A is not a valid job name"},
      {"apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\nmetadata: {name: a-}\nspec: {}\n",
       "set generateName"},
      {"apiVersion: adaptdl.petuum.com/v1\nkind: AdaptDLJob\narchive: x\nspec: {template: {spec: "
       "{containers: [{command: [a]}]}}}\n",
       "archive: unknown key"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK_ERROR(parse(c.text), c.part);
    CHECK_ERROR(parse(c.text), "job.yaml");
  }
}

TEST_CASE(
    "adaptdl-job(5) holds the table of the short form as it is, and examples that are right") {
  const std::string path = std::string(ADAPTDL_SOURCE_DIR) + "/man/adaptdl-job.5";
  const std::string page = read_file(path, 1 << 20);
  const auto part = [&page](const std::string& begin, const std::string& end) {
    const size_t from = page.find(begin), to = page.find(end, from);
    REQUIRE(from != std::string::npos);
    REQUIRE(to != std::string::npos);
    return std::pair(from + begin.size(), to);
  };
  for (const char* name : {"SHORT", "ADAPTDLJOB"}) {
    CAPTURE(name);
    const auto [from, to] =
        part(fmt::format(".\\\" BEGIN EXAMPLE {}\n", name), ".\\\" END EXAMPLE\n");
    std::string example = page.substr(from, to - from);
    for (const auto& [roff, plain] : {std::pair(std::string("\\-"), "-"), {"\\e", "\\"}}) {
      for (size_t i; (i = example.find(roff)) != std::string::npos;) {
        example.replace(i, roff.size(), plain);
      }
    }
    const JobFile job = parse(example);
    CHECK(job.spec.max_replicas == 8);
    CHECK(job.spec.request.memory_bytes == int64_t{4} << 30);
  }

  const auto [from, to] =
      part(".\\\" BEGIN KEYS (generated; see job_fields.h)\n", ".\\\" END KEYS\n");
  const std::string wanted = document_job_fields();
  const bool same = page.substr(from, to - from) == wanted;
  if (!same && std::getenv("ADAPTDL_ACCEPT") != nullptr) {
    write_file_atomic(path, page.substr(0, from) + wanted + page.substr(to));
    return;
  }
  CHECK_MESSAGE(same,
                "man/adaptdl-job.5 differs from the table of keys; run this test with "
                "ADAPTDL_ACCEPT=1 to update it");
}

}  // namespace job_file_test
