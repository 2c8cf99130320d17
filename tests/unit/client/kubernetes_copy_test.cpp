// `adaptdl cp` on Kubernetes: the commands that it has run in pods run on this machine.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/client/kubernetes/copy.h"
#include "tests/unit/client/kubernetes_lab.h"

namespace adaptdl::client {
namespace {

using Exec = kube::FakeCluster::Exec;

// The node of the helper pod: says that it is in that phase.
bool answer_for_node(kube::Client& client, const char* phase) {
  for (const Json& pod : client.list(kube::kPods.in("lab")).items) {
    if (pod.contains("status")) continue;
    kube::Resource status = kube::kPods.in("lab", pod["metadata"]["name"].get<std::string>());
    status.subresource = "status";
    client.patch(status, kube::PatchKind::merge,
                 {{"status", {{"phase", phase}, {"reason", "NoRoom"}, {"message", "a node"}}}});
    return true;
  }
  return false;
}

std::string bytes(size_t count) {
  std::string result(count, 0);
  for (size_t i = 0; i < count; ++i) result[i] = static_cast<char>(i * 7 + i / 1000);
  return result;
}

struct Failure {
  std::string sentence;
  ExitCode code;
};
template <typename Act>
Failure failure_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  }
  return {"it did not fail", ExitCode::ok};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cp: from and to a replica that runs") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  const std::string model = bytes(700'000);
  write_file_atomic(lab.file("pod/share/model"), model);
  make_directories(lab.file("pod/checkpoint/step-1"));
  write_file_atomic(lab.file("pod/checkpoint/step-1/state"), "s");

  CopyResult result =
      copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share/model", lab.file("mine"));
  CHECK(result.files == 1);
  CHECK(result.bytes == model.size());
  CHECK(read_file(lab.file("mine"), 1 << 20) == model);

  CHECK(copy_from_storage(*lab.cluster, lab.job, "/adaptdl", lab.file("all")).files == 2);
  CHECK(read_file(lab.file("all/checkpoint/step-1/state"), 100) == "s");

  // Under a new name, and into a folder that is there.
  write_file_atomic(lab.file("data"), model);
  CHECK(copy_to_storage(*lab.cluster, lab.file("data"), lab.job, "/adaptdl/share/new").files == 1);
  CHECK(read_file(lab.file("pod/share/new"), 1 << 20) == model);
  CHECK(copy_to_storage(*lab.cluster, lab.file("all"), lab.job, "/adaptdl/share").files == 2);
  CHECK(read_file(lab.file("pod/share/all/share/model"), 1 << 20) == model);
  CHECK(lab.pods().size() == 1);  // no other was made
}

// tar ends where the archive does, and need not read the rest of the last block. Here that rest is
// more than the kernel takes for sockets.
TEST_CASE("cp: the command there ends before all is sent") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  write_file_atomic(lab.file("data"), std::string(16 << 20, 'x'));
  lab.fake.set_exec([](std::vector<std::string>& words) {
    if (words[0] == "sh") words[2] = "head -c 1000 >/dev/null";
    return Exec::run;
  });
  CHECK(copy_to_storage(*lab.cluster, lab.file("data"), lab.job, "/adaptdl/share/new").files == 1);
}

// A stop file, say: the program sees it, and ends before tar does.
TEST_CASE("cp: the replica ends meanwhile") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  lab.put_pod("net-1", 1);
  make_directories(lab.file("mine"));
  write_file_atomic(lab.file("mine/model"), "m");
  kube::Client node(lab.fake.config());
  const auto end = [&](const std::string& pod) {
    kube::Resource status = kube::kPods.in("lab", pod);
    status.subresource = "status";
    node.patch(status, kube::PatchKind::merge, {{"status", {{"phase", "Succeeded"}}}});
  };
  // The nodes tell the end of what they have ended, or could not start, only later.
  const Meanwhile kubelets([&] {
    if (lab.fake.execs() > 1) end("net-0");
    if (lab.fake.execs() > 2) end("net-1");
    answer_for_node(node, "Running");
    return false;
  });
  lab.fake.set_exec([&](std::vector<std::string>& words) {
    if (lab.fake.execs() == 2) words[2] = "tar -x -f - -C \"$1\"; kill -9 $$";
    return lab.fake.execs() == 3 ? Exec::refused : Exec::run;
  });
  CHECK(copy_to_storage(*lab.cluster, lab.file("mine"), lab.job, "/adaptdl/share/new").files == 1);
  CHECK(lab.fake.execs() == 4);
  // What the first try has made is no folder to copy into.
  CHECK(read_file(lab.file("pod/share/new/model"), 100) == "m");
  CHECK_FALSE(path_exists(lab.file("pod/share/new/mine")));
  CHECK(lab.pods().size() == 2);
}

TEST_CASE("cp: a file changes meanwhile") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0);
  write_file_atomic(lab.file("pod/share/log"), "line");
  const char* say = "echo 'tar: ./share/log: file changed as we read it' >&2; exit 1";
  lab.fake.set_exec([&](std::vector<std::string>& words) {
    words.insert(words.begin(), {"sh", "-c", fmt::format("\"$@\"; {}", say), "sh"});
    return Exec::run;
  });
  const CopyResult result =
      copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share", lab.file("mine"));
  CHECK(result.files == 1);
  CHECK(result.changed == std::vector<std::string>{"./share/log: file changed as we read it"});
  CHECK(read_file(lab.file("mine/log"), 100) == "line");

  say = "echo 'tar: ./share/log: Permission denied' >&2; exit 1";
  const std::string said =
      failure_of([&] {
        copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share", lab.file("other"));
      }).sentence;
  CHECK(contains(said, "Permission denied"));
}

TEST_CASE("cp: a pod is made when no replica runs, and goes again") {
  KubernetesLab lab;
  lab.put_pod("net-0", 0, "Succeeded");
  write_file_atomic(lab.file("pod/share/model"), "m");
  kube::Client node(lab.fake.config());
  {
    const Meanwhile kubelet([&] { return answer_for_node(node, "Running"); });
    copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share/model", lab.file("mine"));
  }
  CHECK(read_file(lab.file("mine"), 100) == "m");
  CHECK(lab.pods().size() == 1);
  {
    const Meanwhile kubelet([&] { return answer_for_node(node, "Running"); });
    copy_to_storage(*lab.cluster, lab.file("mine"), lab.job, "/adaptdl/share/new");
  }
  CHECK(read_file(lab.file("pod/share/new"), 100) == "m");
  CHECK(lab.pods().size() == 1);
}

TEST_CASE("cp: the pod that was made goes however it ends") {
  KubernetesLab lab;
  write_file_atomic(lab.file("pod/share/model"), bytes(50'000));
  write_file_atomic(lab.file("data"), bytes(900'000));
  kube::Client node(lab.fake.config());
  const char* phase = "Running";
  const auto fetch = [&] {
    const Meanwhile kubelet([&] { return answer_for_node(node, phase); });
    copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share/model", lab.file("mine"));
  };
  const auto bring = [&] {
    const Meanwhile kubelet([&] { return answer_for_node(node, phase); });
    copy_to_storage(*lab.cluster, lab.file("data"), lab.job, "/adaptdl/share/new");
  };
  SUBCASE("it cannot start") {
    phase = "Failed";
    const std::string said = failure_of(fetch).sentence;
    CHECK(contains(said, "does not start: NoRoom: a node"));
  }
  SUBCASE("its image has no tar") {
    lab.fake.set_exec([](std::vector<std::string>& words) {
      words[0] = "/nowhere/tar";
      return Exec::run;
    });
    CHECK(contains(failure_of(fetch).sentence, "the image of net has no tar"));
  }
  SUBCASE("the file is not there") {
    const std::string said =
        failure_of([&] {
          const Meanwhile kubelet([&] { return answer_for_node(node, phase); });
          copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share/other", lab.file("mine"));
        }).sentence;
    CHECK(contains(said, "./other"));
    CHECK(contains(said, "No such file"));
  }
  SUBCASE("the connection breaks on the way here") {
    lab.fake.set_exec([](std::vector<std::string>&) { return Exec::dropped; });
    CHECK(failure_of(fetch).code == ExitCode::error);
    CHECK_FALSE(path_exists(lab.file("mine")));  // no half of a file
  }
  SUBCASE("the connection breaks on the way there") {
    lab.fake.set_exec([](std::vector<std::string>& words) {
      return words[0] == "test" ? Exec::run : Exec::dropped;
    });
    CHECK(failure_of(bring).code == ExitCode::error);
  }
  SUBCASE("the node cannot be reached") {
    lab.refuse_execs();
    CHECK(contains(failure_of(fetch).sentence, "error dialing backend"));
  }
  SUBCASE("there is no room where it is to be") {
    lab.fake.set_exec([](std::vector<std::string>& words) {
      if (words[0] == "sh") words[2] = "head -c 1000 >/dev/null; echo no space >&2; exit 2";
      return Exec::run;
    });
    CHECK(contains(failure_of(bring).sentence, "no space"));
  }
  CHECK(lab.pods().empty());
}

TEST_CASE("cp: a signal ends it, and the pod that was made goes") {
  KubernetesLab lab;
  write_file_atomic(lab.file("data"), bytes(900'000));
  kube::Client node(lab.fake.config());
  const auto bring = [&] {
    copy_to_storage(*lab.cluster, lab.file("data"), lab.job, "/adaptdl/share/new");
  };
  std::string when;
  Failure end;
  SUBCASE("while the pod starts") {
    const Meanwhile user([&] {
      const bool there = !node.list(kube::kPods.in("lab")).items.empty();
      if (there) ::kill(::getpid(), SIGINT);
      return there;
    });
    end = failure_of(bring);
  }
  SUBCASE("while nothing comes") {
    lab.fake.set_exec([](std::vector<std::string>&) { return Exec::hung; });
    const Meanwhile kubelet([&] { return answer_for_node(node, "Running"); });
    const Meanwhile user([&] {
      if (lab.fake.execs() > 0) ::kill(::getpid(), SIGTERM);
      return lab.fake.execs() > 0;
    });
    end = failure_of(bring);
  }
  SUBCASE("while the command there reads nothing") {
    lab.fake.set_exec([](std::vector<std::string>& words) {
      if (words[0] == "sh") words[2] = "sleep 100";
      return Exec::run;
    });
    const Meanwhile kubelet([&] { return answer_for_node(node, "Running"); });
    const Meanwhile user([&] {
      if (lab.fake.execs() > 1) ::kill(::getpid(), SIGHUP);
      return lab.fake.execs() > 1;
    });
    end = failure_of(bring);
  }
  CHECK(end.code == ExitCode::interrupted);
  CHECK(contains(end.sentence, "interrupted"));
  CHECK(lab.pods().empty());
}

TEST_CASE("cp: an API server that is out of sorts") {
  KubernetesLab lab;
  write_file_atomic(lab.file("pod/share/model"), "m");
  kube::Client node(lab.fake.config());
  // Of each kind of request the first two fail, such that they may be repeated.
  std::map<std::string, int> failed;
  lab.fake.api().set_fault([&](const HttpServerRequest& request) -> std::optional<HttpResponse> {
    const int count = ++failed[request.method + request.path];
    if (request.method == "PATCH" || count > 2) return std::nullopt;
    if (request.method == "POST" || count == 1) {
      return kube::status_response(429, "TooManyRequests", "later", {{"Retry-After", "0"}});
    }
    return kube::status_response(500, "InternalError", "etcd");
  });
  {
    const Meanwhile kubelet([&] { return answer_for_node(node, "Running"); });
    copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share/model", lab.file("mine"));
  }
  CHECK(read_file(lab.file("mine"), 100) == "m");
  CHECK(lab.pods().empty());
}

TEST_CASE("cp: a job without a replica and without storage") {
  KubernetesLab lab;
  Json bare = lab.job;
  bare["spec"]["template"]["spec"].erase("volumes");
  CHECK(contains(failure_of([&] {
                   copy_from_storage(*lab.cluster, bare, "/adaptdl/share", lab.file("x"));
                 }).sentence,
                 "no running replica, and no storage"));
  lab.fake.api().erase(kube::kClaims.in("lab", "adaptdl-pvc-1"));
  CHECK(contains(failure_of([&] {
                   copy_from_storage(*lab.cluster, lab.job, "/adaptdl/share", lab.file("x"));
                 }).sentence,
                 "its storage is gone"));
  CHECK(lab.pods().empty());
}

}  // namespace adaptdl::client
