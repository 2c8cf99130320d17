#include "core/client/tensorboards.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <thread>
#include <utility>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/interruption.h"
#include "core/base/text.h"
#include "core/client/kubernetes/connection.h"
#include "core/client/kubernetes/shared_claim.h"
#include "core/client/kubernetes/tensorboard_objects.h"
#include "core/kube/port_forward.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kPodPatience{300};   // its image is large
constexpr Seconds kLookInterval{1.0};  // between looks for a pod that is ready
constexpr Seconds kRemovalPatience{10};
constexpr Seconds kRemovalLook{0.3};

bool is_ours(const Json& object, const std::string& name) {
  return object["metadata"].value("labels", Json::object()).value(kTensorboardLabel, "") == name;
}

class KubernetesTensorBoards : public TensorBoards {
 public:
  KubernetesTensorBoards(const ClusterChoice& choice, bool verbose) : cluster_(choice, verbose) {}

  std::string create(const std::string& name, const TensorBoardOptions& options) override {
    return cluster_.reach([&] { return make(name, options); });
  }

  std::string removal(const std::string& name) override {
    return cluster_.reach([&] {
      require(name);
      const std::vector<std::string> jobs = unfinished_jobs(name);
      if (!jobs.empty()) {
        fail("{} is in use by {}; cancel these jobs first", name, fmt::join(jobs, ", "));
      }
      const auto claim = client().find(claims(name));
      return fmt::format("TensorBoard instance {} in namespace {}{}", name, cluster_.name_space(),
                         claim && is_ours(*claim, name) ? ", with all that jobs wrote to it" : "");
    });
  }

  // The cluster deletes Service and claim with their Deployment. If the Deployment was deleted
  // without them, they are deleted here.
  void remove(const std::string& name) override {
    cluster_.reach([&] {
      client().remove(deployments(name),
                      {.propagation = kube::DeleteOptions::Propagation::background});
      for (const kube::Resource& each : {services(name), claims(name)}) {
        const auto object = client().find(each);
        if (object && is_ours(*object, name)) client().remove(each);
      }
    });
  }

  TensorBoardList list() override {
    return cluster_.reach([&] { return listed(); });
  }

  void proxy(const std::string& name, const std::string& address,
             std::optional<int> port) override {
    Interruption interruption({SIGINT, SIGTERM, SIGHUP});
    cluster_.reach([&] {
      require(name);
      show(name, address, port.value_or(0), interruption.cancellation());
    });
  }

 private:
  kube::Client& client() { return cluster_.client(); }
  kube::Resource deployments(const std::string& name) const {
    return named(kube::kDeployments, name);
  }
  kube::Resource services(const std::string& name) const { return named(kube::kServices, name); }
  kube::Resource claims(const std::string& name) const { return named(kube::kClaims, name); }
  kube::Resource named(const kube::Resource& kind, const std::string& name) const {
    return kind.in(cluster_.name_space(), tensorboard_object_name(name));
  }

  std::string make(const std::string& name, const TensorBoardOptions& options) {
    const Json claim = shared_claim_spec(cluster_, options.size, options.storage_class);
    if (client().find(deployments(name))) {
      fail("TensorBoard instance {} already exists in namespace {}", name, cluster_.name_space());
    }
    for (const kube::Resource& each : {services(name), claims(name)}) await_removal(each, name);
    const Json made =
        client().create(kube::kDeployments.in(cluster_.name_space()),
                        tensorboard_deployment(name, options.image, options.node_port));
    const Json owner = tensorboard_owner(made);
    try {
      std::string note;
      if (!create_or_adopt(claims(name), tensorboard_claim(name, claim, owner), name)) {
        note = fmt::format("it shows the volume {}, which already existed",
                           tensorboard_object_name(name));
      }
      if (options.node_port) {
        create_or_adopt(services(name), tensorboard_service(name, owner), name);
      }
      return note;
    } catch (const Error&) {
      client().remove(deployments(name),
                      {.propagation = kube::DeleteOptions::Propagation::background});
      throw;
    }
  }

  // A resource that is being removed cannot be adopted. A claim stays until its last pod ends.
  void await_removal(const kube::Resource& place, const std::string& name) {
    const TimePoint begun = Monotonic::now();
    for (bool told = false;; told = true) {
      const auto object = client().find(place);
      if (!object || !(*object)["metadata"].contains("deletionTimestamp")) return;
      if (seconds_since(begun) > kRemovalPatience.count()) {
        fail("{} of TensorBoard instance {} is still being removed; try again", place.describe(),
             name);
      }
      if (!told) talk(fmt::format("waiting until {} is removed", place.describe()));
      std::this_thread::sleep_for(kRemovalLook);
    }
  }

  // False if it already existed. Adopts what a deleted instance left behind. A claim that a user
  // made for this instance stays the user's.
  bool create_or_adopt(const kube::Resource& place, const Json& object, const std::string& name) {
    const auto there = client().find(place);
    if (!there) {
      kube::Resource collection = place;
      collection.name = "";
      client().create(collection, object);
      return true;
    }
    if (!is_ours(*there, name)) {
      if (place.plural == kube::kClaims.plural) return false;
      fail(
          "namespace {} has a Service {} that does not belong to a TensorBoard instance; delete "
          "it, or choose another name",
          cluster_.name_space(), place.name);
    }
    Json change = {{"metadata", {{"ownerReferences", object["metadata"]["ownerReferences"]}}}};
    if (place.plural == kube::kServices.plural) change["spec"] = {{"type", object["spec"]["type"]}};
    client().patch(place, kube::PatchKind::merge, change);
    return false;
  }

  // By name. Includes instances of which only the claim or Service is left: they can be deleted.
  std::map<std::string, std::map<std::string, Json>> instances() {
    std::map<std::string, std::map<std::string, Json>> result;
    for (const kube::Resource& kind : {kube::kDeployments, kube::kServices, kube::kClaims}) {
      for (Json& object :
           client().list(kind.in(cluster_.name_space()), {.labels = kTensorboardLabel}).items) {
        const std::string name =
            object["metadata"]["labels"].value(kTensorboardLabel, std::string());
        if (object["metadata"].value("name", "") != tensorboard_object_name(name)) continue;
        result[name][kind.plural] = std::move(object);
      }
    }
    return result;
  }

  void require(const std::string& name) {
    const auto all = instances();
    if (all.contains(name)) return;
    std::vector<std::string_view> names;
    for (const auto& each : all) names.emplace_back(each.first);
    fail(
        "TensorBoard instance {} not found in namespace {}.{} Create it with `adaptdl tensorboard "
        "create {}`.",
        name, cluster_.name_space(), did_you_mean(name, names), name);
  }

  TensorBoardList listed() {
    TensorBoardList result{.head = {"NAME", "NODEPORT", "SIZE", "READY"}};
    for (const auto& [name, objects] : instances()) {
      const auto part = [&, of = &objects](const kube::Resource& kind, const char* pointer) {
        const auto found = of->find(kind.plural);
        return found == of->end() ? Json()
                                  : found->second.value(Json::json_pointer(pointer), Json());
      };
      const auto number = [](const Json& value) {
        return value.is_number() ? value.get<int>() : 0;
      };
      const int port = number(part(kube::kServices, "/spec/ports/0/nodePort")),
                ready = number(part(kube::kDeployments, "/status/readyReplicas")),
                replicas = number(part(kube::kDeployments, "/status/replicas"));
      const Json claimed = part(kube::kClaims, "/spec/resources/requests/storage");
      const std::string size = claimed.is_string() ? claimed.get<std::string>() : "";
      const auto or_none = [](bool is, const std::string& text) { return is ? text : "<none>"; };
      result.rows.push_back({name, or_none(port != 0, std::to_string(port)),
                             or_none(!size.empty(), size), fmt::format("{}/{}", ready, replicas)});
      result.records.push_back({{"name", name},
                                {"namespace", cluster_.name_space()},
                                {"node_port", port != 0 ? Json(port) : Json()},
                                {"size", size.empty() ? Json() : Json(size)},
                                {"ready", ready > 0},
                                {"replicas", replicas}});
    }
    return result;
  }

  // Empty if AdaptDL is uninstalled together with the definition of jobs.
  std::vector<Json> jobs() {
    try {
      return client().list(cluster_.jobs()).items;
    } catch (const kube::ApiError& error) {
      if (!error.not_found()) throw;
      return {};
    }
  }

  std::vector<std::string> unfinished_jobs(const std::string& name) {
    std::vector<std::string> result;
    for (const Json& job : jobs()) {
      if (!job.value("/status/completionTimestamp"_json_pointer, "").empty()) continue;
      const std::string phase = job.value("/status/phase"_json_pointer, "");
      if (phase == "Succeeded" || phase == "Failed") continue;
      const Json volumes = job.value("/spec/template/spec/volumes"_json_pointer, Json::array());
      if (std::any_of(volumes.begin(), volumes.end(), [&](const Json& volume) {
            return volume.value("/persistentVolumeClaim/claimName"_json_pointer, "") ==
                   tensorboard_object_name(name);
          })) {
        result.push_back(job["metadata"].value("name", ""));
      }
    }
    return result;
  }

  // A pod that is ready; "" if there is none, with the reason in `why`.
  std::string serving_pod(const std::string& name, std::string& why) {
    why = "it has no pod";
    const std::string label = fmt::format("{}={}", kTensorboardLabel, name);
    for (const Json& pod :
         client().list(kube::kPods.in(cluster_.name_space()), {.labels = label}).items) {
      if (pod["metadata"].contains("deletionTimestamp")) continue;
      why = why_not_ready(pod);
      if (why.empty()) return pod["metadata"].value("name", "");
    }
    return "";
  }

  // Keeps the local port while pods come and go, and while the API server is unreachable.
  void show(const std::string& name, const std::string& address, int port,
            const Cancellation& cancel) {
    std::optional<kube::PortForward> forward;
    std::string shown, why, told;
    bool away = false;  // the API server is unreachable, and the user was told
    const TimePoint begun = Monotonic::now();
    do {
      std::string pod;
      try {
        pod = serving_pod(name, why);
        away = false;
      } catch (const Error& error) {
        if (shown.empty()) throw;
        if (!std::exchange(away, true)) talk(fmt::format("{}; retrying", error.what()));
      }
      if (pod != shown && !pod.empty()) {
        forward.reset();
        forward.emplace(client(), kube::kPods.in(cluster_.name_space(), pod), kTensorboardPort,
                        static_cast<uint16_t>(port), address);
        if (shown.empty()) tell_tensorboard(name, address, forward->port());
        port = forward->port();
        shown = pod;
      } else if (shown.empty() && seconds_since(begun) > kPodPatience.count()) {
        fail("TensorBoard instance {} does not start: {}", name, why);
      } else if (shown.empty() && why != told) {
        told = why;
        talk(fmt::format("waiting for TensorBoard instance {}: {}", name, why));
      }
    } while (!cancel.wait_for(kLookInterval));
  }

  KubernetesConnection cluster_;
};

}  // namespace

std::unique_ptr<TensorBoards> open_kubernetes_tensorboards(const ClusterChoice& choice,
                                                           bool verbose) {
  return std::make_unique<KubernetesTensorBoards>(choice, verbose);
}

}  // namespace adaptdl::client
