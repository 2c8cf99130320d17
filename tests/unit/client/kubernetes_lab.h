#pragma once

// A cluster for tests of commands: the fake one, reached by a kubeconfig as commands reach any.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/files.h"
#include "core/client/kubernetes/connection.h"
#include "tests/unit/client/kubernetes_choice.h"
#include "tests/unit/kube/fake_cluster.h"

namespace adaptdl::client {

struct KubernetesLab {
  TemporaryDirectory folder;  // its pod/ stands for /adaptdl in pods
  kube::FakeCluster fake{folder.file("pod"),
                         {{kAdaptDLJobs, "AdaptDLJob", true, {"spec"}},
                          {kube::kClaims, "PersistentVolumeClaim", true, {"spec"}}}};
  std::unique_ptr<KubernetesConnection> cluster;
  Json job;  // "net" of namespace lab, whose storage is the claim adaptdl-pvc-1

  KubernetesLab() {
    make_directories(folder.file("pod/checkpoint"));
    make_directories(folder.file("pod/share"));
    cluster = std::make_unique<KubernetesConnection>(
        test_choice(folder, "server: " + fake.config().server, "lab"), false);
    fake.api().put(kube::kClaims.in("lab"), {{"metadata", {{"name", "adaptdl-pvc-1"}}}});
    const Json volume = {{"name", "adaptdl-pvc"},
                         {"persistentVolumeClaim", {{"claimName", "adaptdl-pvc-1"}}}};
    const Json pod = {{"containers", {{{"name", "main"}, {"image", "repo/net:1"}}}},
                      {"volumes", {volume}}};
    job = fake.api().put(kAdaptDLJobs.in("lab"), {{"metadata", {{"name", "net"}}},
                                                  {"spec", {{"template", {{"spec", pod}}}}}});
  }

  std::string file(const std::string& name) const { return folder.file(name); }

  // A replica of the job.
  void put_pod(const std::string& name, int rank, const char* phase = "Running", int group = 0) {
    const Json owner = {
        {"controller", true}, {"kind", "AdaptDLJob"}, {"uid", job["metadata"]["uid"]}};
    fake.api().put(
        kube::kPods.in("lab"),
        {{"metadata",
          {{"name", name},
           {"labels", {{"adaptdl/job", "net"}}},
           {"ownerReferences", {owner}},
           {"annotations",
            {{"adaptdl/group", std::to_string(group)}, {"adaptdl/rank", std::to_string(rank)}}}}},
         {"spec", {{"containers", {{{"name", "main"}}}}}},
         {"status", {{"phase", phase}}}});
  }

  // Upgrades, and the plain request after them, which is told why.
  void refuse_execs() {
    fake.set_exec([](std::vector<std::string>&) { return kube::FakeCluster::Exec::refused; });
    fake.api().set_fault([](const HttpServerRequest& request) -> std::optional<HttpResponse> {
      if (!request.path.ends_with("/exec")) return std::nullopt;
      return kube::status_response(500, "InternalError", "error dialing backend");
    });
  }

  std::vector<Json> pods() { return cluster->client().list(cluster->pods()).items; }
};

// Calls `act` again and again in a thread, until it says that it is done, or the object goes.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<bool()> act)
      : thread_([this, act = std::move(act)] {
          while (!over_.wait_for(Seconds(0.01))) {
            try {
              if (act()) return;
            } catch (const Error&) {  // the next time, then
            }
          }
        }) {}
  ~Meanwhile() {
    over_.cancel();
    thread_.join();
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  Cancellation over_;
  std::thread thread_;
};

}  // namespace adaptdl::client
