// `adaptdl exec` on Kubernetes: the commands run on this machine.

#include <doctest/doctest.h>
#include <fcntl.h>

#include "core/base/error.h"
#include "core/client/kubernetes/exec.h"
#include "tests/unit/client/kubernetes_lab.h"
#include "tests/unit/client/standing.h"

namespace adaptdl::client::kubernetes_exec_test {
namespace {

using Exec = kube::FakeCluster::Exec;

struct Ran {
  int code = -1;
  std::string output, errors, failure;
};

// With the file `in` as standard input.
Ran run(KubernetesLab& lab, const std::vector<std::string>& words, const std::string& input = "",
        std::optional<int64_t> replica = std::nullopt) {
  write_file_atomic(lab.file("in"), input);
  Ran ran;
  {
    const Fd in = open_file(lab.file("in"), O_RDONLY);
    const Fd out = open_file(lab.file("out"), O_WRONLY | O_CREAT | O_TRUNC);
    const Fd errors = open_file(lab.file("errors"), O_WRONLY | O_CREAT | O_TRUNC);
    const Standing zero(0, in.get()), one(1, out.get()), two(2, errors.get());
    try {
      ran.code =
          exec_in_pod(*lab.cluster, lab.job, {.job = "net", .words = words, .replica = replica});
    } catch (const Error& error) {
      ran.failure = error.what();
    }
  }
  ran.output = read_file(lab.file("out"), 10 << 20);
  ran.errors = read_file(lab.file("errors"), 10 << 20);
  return ran;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("exec: the command's outputs and its exit code") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  Ran ran = run(lab, {"sh", "-c", "echo out; echo err >&2; exit 7"});
  CHECK(ran.code == 7);
  CHECK(ran.output == "out\n");
  CHECK(ran.errors == "err\n");
  CHECK(run(lab, {"true"}).code == 0);
  CHECK(run(lab, {"sh", "-c", "kill -9 $$"}).code == 137);

  // One that cannot be started, as shells say it.
  ran = run(lab, {"/nowhere/program"});
  CHECK(ran.code == 127);
  CHECK(contains(ran.errors, "adaptdl: /nowhere/program: OCI runtime exec failed"));
  write_file_atomic(lab.file("pod/share/text"), "no program");
  CHECK(run(lab, {"/adaptdl/share/text"}).code == 126);
}

TEST_CASE("exec: standard input, and its end") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  std::string input(400'000, 'x');
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<char>(i * 11);
  // Only the end of its input ends `cat`; what it says afterwards still comes.
  Ran ran = run(lab, {"sh", "-c", "cat; echo over; exit 3"}, input);
  CHECK(ran.code == 3);
  CHECK(ran.output == input + "over\n");
  // It closes its input, and goes on.
  ran = run(lab, {"sh", "-c", "exec <&-; sleep 0.2; echo alone"}, input);
  CHECK(ran.code == 0);
  CHECK(ran.output == "alone\n");
  CHECK(run(lab, {"cat"}).output.empty());
}

TEST_CASE("exec: connections that fail") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  lab.fake.set_exec([](std::vector<std::string>&) { return Exec::dropped; });
  Ran ran = run(lab, {"sh", "-c", "head -c 9000 /dev/zero; sleep 100"});
  CHECK(ran.code == -1);
  CHECK(contains(ran.failure, "exec in pods/net-0"));
  CHECK(ran.output.size() >= 4000);  // what came is there
  lab.refuse_execs();
  ran = run(lab, {"true"});
  CHECK(contains(ran.failure, "error dialing backend"));
}

TEST_CASE("exec: which replica") {
  KubernetesLab lab;
  CHECK(contains(run(lab, {"true"}).failure, "net has no running replica;"));
  lab.put_pod("net-1-0", 0, "Pending", 1);
  lab.put_pod("net-1-1", 1, "Running", 1);
  lab.put_pod("net-0-0", 0, "Running", 0);
  CHECK(run(lab, {"true"}).code == 0);
  CHECK(run(lab, {"true"}, "", 1).code == 0);
  CHECK(contains(run(lab, {"true"}, "", 2).failure, "net has no running replica 2;"));
  lab.job["status"]["phase"] = "Failed";  // its pods are only about to go
  CHECK(contains(run(lab, {"true"}).failure, "net has no running replica;"));
}

}  // namespace adaptdl::client::kubernetes_exec_test
