#include "core/sim/workload.h"

#include <doctest/doctest.h>

#include "tests/unit/base/expect_error.h"

namespace workload_test {

using namespace adaptdl;

namespace {

const std::vector<std::string> kApplications = {"bert", "ncf"};

std::vector<WorkloadJob> csv(const std::string& rows) {
  return parse_workload("name,time,application,num_replicas,batch_size\n" + rows, "w.csv",
                        kApplications);
}
std::vector<WorkloadJob> yaml(const std::string& text) {
  return parse_workload(text, "w.yaml", kApplications);
}

const std::string kJob = "name: a, submitted_s: 5m, application: ncf, replicas: 2, batch_size: 64";

}  // namespace

TEST_CASE("a published workload is read in its order") {
  const auto jobs = csv("ncf-0,29,ncf,1,32768\nbert-1,7.5,bert,6,48\n");
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].name == "ncf-0");
  CHECK(jobs[0].submitted_s == 29);
  CHECK(jobs[0].batch_size == 32768);
  CHECK(jobs[1].submitted_s == 7.5);
  CHECK(jobs[1].application == "bert");
  CHECK(jobs[1].replicas == 6);
  CHECK(jobs[1].min_replicas == 0);
  CHECK(jobs[1].max_replicas == std::numeric_limits<int>::max());
  CHECK(jobs[1].preemptible);
}

TEST_CASE("a YAML workload says more of a job") {
  const auto jobs =
      yaml("jobs:\n  - {" + kJob +
           ", min_replicas: 2, max_replicas: 8, preemptible: false}\n"
           "  - {name: b, submitted_s: 1, application: bert, replicas: 1, batch_size: 12}");
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].submitted_s == 300);
  CHECK(jobs[0].min_replicas == 2);
  CHECK(jobs[0].max_replicas == 8);
  CHECK_FALSE(jobs[0].preemptible);
  CHECK(jobs[1].preemptible);
}

TEST_CASE("a workload may contain commands that tell nothing of themselves") {
  const auto jobs =
      yaml("jobs:\n  - {" + kJob + ", silent: true, restartable: true, restart_s: 1m}");
  CHECK(jobs[0].silent);
  CHECK(jobs[0].restartable);
  CHECK(jobs[0].restart_s == 60);
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + ", restartable: true}"), "only of a silent job");
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + ", restart_s: 5}"), "only of a silent job");
}

TEST_CASE("what is wrong with a workload is told with its place") {
  CHECK_ERROR(csv("a,1,ncf,1,8\na,2,ncf,1,8\n"), "w.csv:3: name: 'a' is the name of two jobs");
  CHECK_ERROR(csv("a,1,gpt,1,8\n"),
              "w.csv:2: application: 'gpt' has no profile; the profiles are bert, ncf");
  CHECK_ERROR(csv("a,-1,ncf,1,8\n"), "w.csv:2: time");
  CHECK_ERROR(csv("a,1,ncf,0,8\n"), "w.csv:2: num_replicas");
  CHECK_ERROR(csv("a,1,ncf,1,0\n"), "w.csv:2: batch_size");
  CHECK_ERROR(csv(""), "w.csv: has no row");

  CHECK_ERROR(yaml(""), "jobs");
  CHECK_ERROR(yaml("jobs: []"), "jobs");
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + "}\n  - {" + kJob + "}\n"),
              "w.yaml:3: jobs.1.name: 'a' is the name of two jobs");
  CHECK_ERROR(yaml("jobs:\n  - {name: a, submitted_s: soon, application: ncf}"),
              "w.yaml:2: jobs.0.submitted_s");
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + ", min_replicas: 4, max_replicas: 3}\n"),
              "w.yaml:2: jobs.0.max_replicas");
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + ", gpus: 3}\n"), "w.yaml:2: jobs.0.gpus");

  CHECK_ERROR(parse_workload("", "w.txt", kApplications), "w.txt: unknown workload format");
}

TEST_CASE("one entry may stand for many jobs") {
  const auto jobs = yaml("jobs:\n  - {" + kJob + ", count: 3, every_s: 1m}\n");
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].name == "a-0");
  CHECK(jobs[2].name == "a-2");
  CHECK(jobs[2].submitted_s == 300 + 120);
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + ", count: 0}\n"), "jobs.0.count");
  CHECK_ERROR(yaml("jobs:\n  - {" + kJob + ", count: 3, every_s: 600000000}\n"),
              "w.yaml:2: jobs.0.every_s: submits job a-2 1.2e+09 s after the start");
  CHECK(yaml("jobs:\n  - {" + kJob + ", count: 1}\n").at(0).name == "a");
}

}  // namespace workload_test
