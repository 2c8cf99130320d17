// Where jobs on Kubernetes have their files, and what is packed for them.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/job_tar.h"
#include "core/client/kubernetes/exec.h"
#include "core/client/kubernetes/manifest.h"
#include "core/client/kubernetes/pods.h"
#include "core/client/kubernetes/storage.h"
#include "core/oci/untar.h"

namespace adaptdl::client {
namespace {

Json submitted() {
  Json container = {{"name", "main"},
                    {"image", "repo/net:1"},
                    {"securityContext", {{"runAsUser", 7}, {"privileged", true}}}};
  Json job = {{"metadata", {{"name", "net"}}}};
  job["spec"]["template"]["spec"] = {
      {"containers", Json::array({container})},
      {"imagePullSecrets", Json::array({{{"name", "s"}}})},
      {"hostNetwork", true},
      {"securityContext", {{"runAsUser", 5}, {"runAsNonRoot", true}, {"fsGroup", 9}}}};
  ManifestChanges changes;
  changes.claim = "adaptdl-pvc-1";
  change_manifest(job, changes);
  return job;
}

Json pod(const std::string& name, const char* owner, int group, int rank,
         const char* phase = "Running") {
  const Json reference = {{"controller", true}, {"uid", owner}, {"kind", "AdaptDLJob"}};
  return {{"metadata",
           {{"name", name},
            {"namespace", "lab"},
            {"uid", name},
            {"ownerReferences", Json::array({reference})},
            {"annotations",
             {{"adaptdl/group", std::to_string(group)}, {"adaptdl/rank", std::to_string(rank)}}}}},
          {"spec", {{"containers", Json::array({{{"name", "main"}}, {{"name", "other"}}})}}},
          {"status", {{"phase", phase}}}};
}

}  // namespace

TEST_CASE("paths of a job's storage") {
  CHECK(storage_path("/") == "/adaptdl");
  CHECK(storage_path("") == "/adaptdl");
  CHECK(storage_path("/adaptdl/checkpoint/a") == "/adaptdl/checkpoint/a");
  CHECK(storage_path("adaptdl//share/./a/") == "/adaptdl/share/a");
  CHECK(storage_path("/checkpoints") == "/adaptdl/checkpoint");
  CHECK(storage_path("/share/a") == "/adaptdl/share/a");
  CHECK_THROWS_AS(storage_path("/share/../etc"), UsageError);
  for (const char* other : {"/etc/passwd", "/adaptdl/other", "/shared", "/adaptdl/checkpoints"}) {
    INFO(other);
    CHECK_THROWS_AS(storage_path(other), Error);
  }
}

TEST_CASE("the pod that reaches a job's storage has no more rights than the job's") {
  const Json job = submitted();
  CHECK(storage_claim(job) == "adaptdl-pvc-1");
  CHECK(storage_claim(Json::object()) == "");
  const Json made = copy_pod(job, "adaptdl-pvc-1", "0f8fad5b-d9cb");
  const Json& spec = made["spec"];
  const Json& container = spec["containers"][0];
  CHECK(made["metadata"]["generateName"] == "copy-adaptdl-pvc-1-");
  CHECK(made["metadata"]["ownerReferences"][0]["uid"] == "0f8fad5b-d9cb");
  CHECK(container["image"] == "repo/net:1");
  CHECK(container["volumeMounts"][0]["mountPath"] == "/adaptdl");
  CHECK(container["securityContext"]["runAsUser"] == 7);  // the container's word counts
  CHECK(container["securityContext"]["runAsNonRoot"] == true);
  CHECK(container["securityContext"]["allowPrivilegeEscalation"] == false);
  CHECK_FALSE(container["securityContext"].contains("privileged"));
  CHECK_FALSE(spec.contains("hostNetwork"));
  CHECK(spec["securityContext"] == Json({{"fsGroup", 9}}));
  CHECK(spec["imagePullSecrets"][0]["name"] == "s");
  CHECK(spec["activeDeadlineSeconds"] == kCopyPodLife_s);
  CHECK(spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == "adaptdl-pvc-1");
}

TEST_CASE("the pod that reaches a job's storage goes where the job's go") {
  Json job = submitted();
  Json& own = job["spec"]["template"]["spec"];
  const Json kept = {{"key", "petuum.com/nodegroup"},
                     {"operator", "Equal"},
                     {"value", "adaptdl"},
                     {"effect", "NoSchedule"}};
  CHECK(copy_pod(job, "c", "0f8fad5b")["spec"]["tolerations"] == Json::array({kept}));
  const Json gpu = {{"key", "gpu"}, {"operator", "Exists"}};
  own["tolerations"] = Json::array({gpu});
  own["affinity"] = {{"nodeAffinity", {{"zone", "a"}}}, {"podAffinity", {{"with", "others"}}}};
  const Json spec = copy_pod(job, "c", "0f8fad5b")["spec"];
  CHECK(spec["tolerations"] == Json::array({gpu, kept}));
  CHECK(spec["affinity"] == Json({{"nodeAffinity", {{"zone", "a"}}}}));
}

TEST_CASE("the pod that a command runs in") {
  std::vector<Json> pods = {pod("old-0", "u", 1, 0), pod("new-1", "u", 2, 1),
                            pod("new-0", "u", 2, 0, "Pending"), pod("strange", "v", 3, 0)};
  auto found = choose_running_pod(pods, "u", std::nullopt);
  REQUIRE(found);
  CHECK(found->pod.name == "new-1");
  CHECK(found->pod.name_space == "lab");
  CHECK(found->container == "main");
  pods[2]["status"]["phase"] = "Running";
  CHECK(choose_running_pod(pods, "u", std::nullopt)->pod.name == "new-0");
  CHECK(choose_running_pod(pods, "u", 1)->pod.name == "new-1");
  pods[2]["metadata"]["deletionTimestamp"] = "2026-01-31T08:00:00Z";
  CHECK(choose_running_pod(pods, "u", std::nullopt)->pod.name == "new-1");
  CHECK_FALSE(choose_running_pod(pods, "u", 5));
  CHECK_FALSE(choose_running_pod({Json::object()}, "u", std::nullopt));
}

TEST_CASE("commands that cannot be started") {
  CHECK(start_failure("exec failed: \"x\": executable file not found in $PATH") == 127);
  CHECK(start_failure("exec: \"./x\": stat ./x: no such file or directory") == 127);
  CHECK(start_failure("exec: \"/etc\": permission denied") == 126);
  CHECK_FALSE(start_failure("container not found (\"main\")"));
}

TEST_CASE("what is packed unpacks as it was") {
  const TemporaryDirectory folder;
  make_directories(folder.file("from/deep"));
  replace_file(folder.file("from/deep/f"), "hello");
  REQUIRE(chmod(folder.file("from/deep/f").c_str(), 0640) == 0);
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(utimensat(AT_FDCWD, folder.file("from/deep/f").c_str(), times, 0) == 0);
  REQUIRE(symlink("deep/f", folder.file("from/in").c_str()) == 0);
  REQUIRE(symlink("../x", folder.file("from/out").c_str()) == 0);
  REQUIRE(symlink("../x", folder.file("from/deep/x").c_str()) == 0);
  REQUIRE(mkfifo(folder.file("from/fifo").c_str(), 0600) == 0);
  REQUIRE(symlink("from", folder.file("way").c_str()) == 0);
  std::string tar;
  const CopyResult result =
      pack_tar(folder.file("way"), "to", [&](std::string_view bytes) { tar += bytes; });
  CHECK(result.files == 3);
  CHECK(result.bytes == 5);
  CHECK(result.skipped ==
        std::vector<std::string>{
            folder.file("way/fifo") + ": not a regular file",
            folder.file("way/out") + ": leads to ../x, outside of what is copied"});
  bool given = false;
  oci::untar(
      [&]() -> std::string_view {
        return std::exchange(given, true) ? std::string_view() : std::string_view(tar);
      },
      folder.path(), {.names = {{"to", "back"}}});
  CHECK(read_file(folder.file("back/in"), 100) == "hello");
  CHECK(list_directory(folder.file("back")) == std::vector<std::string>{"deep", "in"});
  struct stat status {};
  REQUIRE(stat(folder.file("back/deep/f").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0640);
  CHECK(status.st_mtim.tv_sec == 1000);
  CHECK_THROWS_AS(pack_tar(folder.file("none"), "n", [](std::string_view) {}), Error);
}

TEST_CASE("what changes or goes while it is packed is named, and the rest is there") {
  const TemporaryDirectory folder;
  make_directories(folder.file("from/gone"));
  const std::string whole(300'000, 'x');
  replace_file(folder.file("from/a"), whole);
  replace_file(folder.file("from/b"), "b");
  replace_file(folder.file("from/gone/c"), "c");
  replace_file(folder.file("from/z"), "z");
  std::string tar;
  const CopyResult result = pack_tar(folder.file("from"), "to", [&](std::string_view bytes) {
    if (tar.empty()) {  // a part of a was read
      REQUIRE(truncate(folder.file("from/a").c_str(), 10) == 0);
      remove_tree(folder.file("from/b"));
      remove_tree(folder.file("from/gone"));
    }
    tar += bytes;
  });
  CHECK(result.files == 2);
  CHECK(result.changed ==
        std::vector<std::string>{folder.file("from/a") +
                                 ": was truncated while it was copied; the rest is zeros"});
  REQUIRE(result.skipped.size() == 2);
  CHECK(result.skipped[0].starts_with(folder.file("from/b") + ": was removed"));
  CHECK(result.skipped[1].starts_with(folder.file("from/gone") + ": was removed"));
  bool given = false;
  oci::untar(
      [&]() -> std::string_view {
        return std::exchange(given, true) ? std::string_view() : std::string_view(tar);
      },
      folder.path(), {.names = {{"to", "back"}}});
  CHECK(list_directory(folder.file("back")) == std::vector<std::string>{"a", "z"});
  const std::string shorter = read_file(folder.file("back/a"), 1 << 20);
  CHECK(shorter.size() == whole.size());
  CHECK(shorter[0] == 'x');
  CHECK(shorter.back() == '\0');
  CHECK(read_file(folder.file("back/z"), 10) == "z");
}

TEST_CASE("what a packer says as it ends") {
  const StorageTools system(Json::object());
  StorageTools ours = system;
  ours.own = true;
  const auto skipped = [](const StorageTools& tools, int code, std::string_view said) {
    CopyResult result;
    if (!tools.packed(code, said, result)) return std::string("failed");
    std::string all;
    for (const std::string& sentence : result.skipped) all += "-" + sentence;
    for (const std::string& sentence : result.changed) all += "+" + sentence;
    return all;
  };
  CHECK(skipped(system, 0, "") == "");
  CHECK(skipped(system, 1,
                "tar: ./a: file changed as we read it\n"
                "tar: ./b: File removed before we read it\n"
                "tar: ./c: File shrank by 5 bytes; padding with zeros\n") ==
        "-./b: File removed before we read it+./a: file changed as we read it"
        "+./c: File shrank by 5 bytes; padding with zeros");
  CHECK(skipped(system, 2, "tar: ./a: file changed as we read it\n") == "failed");
  // Those of others than GNU's.
  CHECK(skipped(system, 1, "tar: ./a: No such file or directory\n") == "failed");
  CHECK(skipped(system, 1, "") == "failed");
  CHECK(skipped(ours, 0, "") == "");
  CHECK(skipped(ours, 0, "/a: is no file\nchanged: /b: became shorter\n") ==
        "-/a: is no file+/b: became shorter");
  CHECK(skipped(ours, 1, "/a: is no file\n") == "failed");
}

TEST_CASE("an image with nothing but this program has tools of its own") {
  const Json shell = Json::parse(R"({"spec": {"template": {"spec": {"containers": [
      {"command": ["python3", "train.py"]}]}}}})");
  const Json ours = Json::parse(R"({"spec": {"template": {"spec": {"containers": [
      {"command": ["/adaptdl-app/adaptdl", "run", "train.pt"]}]}}}})");
  CHECK(StorageTools(shell).pack("/adaptdl", {"share"}) ==
        std::vector<std::string>{"tar", "-c", "-f", "-", "-C", "/adaptdl", "./share"});
  CHECK(StorageTools(Json::object()).is_folder("/a") ==
        std::vector<std::string>{"test", "-d", "/a"});
  const StorageTools tools(ours);
  const std::string program = "/adaptdl-app/adaptdl";
  CHECK(tools.wait(5) == std::vector<std::string>{program, "__storage", "--", "wait", "5"});
  CHECK(tools.pack("/f", {"a", "b"}) ==
        std::vector<std::string>{program, "__storage", "--", "pack", "/f", "a", "b"});
  CHECK(tools.unpack("/f") == std::vector<std::string>{program, "__storage", "--", "unpack", "/f"});
}

}  // namespace adaptdl::client
