#include "core/client/kubernetes/submit.h"

#include "core/base/console.h"
#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/interruption.h"
#include "core/client/image/image_self.h"
#include "core/client/image/project_image.h"
#include "core/client/kubernetes/cluster_registry.h"
#include "core/client/kubernetes/manifest.h"
#include "core/client/kubernetes/node_platform.h"
#include "core/client/kubernetes/shared_claim.h"
#include "core/client/kubernetes/storage.h"
#include "core/client/kubernetes/tensorboard_objects.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"

namespace adaptdl::client {
namespace {

// A version 4 UUID.
std::string random_uuid() {
  std::string hex = to_hex(random_bytes(16));
  hex[12] = '4';
  hex[16] = "89ab"[hex[16] & 3];
  for (const size_t place : {8, 13, 18, 23}) hex.insert(place, 1, '-');
  return hex;
}

class KubernetesJobRequest : public JobRequest {
 public:
  KubernetesJobRequest(KubernetesConnection& cluster, Submission submission)
      : cluster_(cluster),
        submission_(std::move(submission)),
        storage_size_(options_.storage_size.value_or(kDefaultStorage)) {
    check_source();
    take_job();
    if (folder_.empty() && options_.image.empty() && manifest_image(job_).empty()) {
      throw UsageError("SOURCE is missing: give the folder to make an image of, or --image IMAGE");
    }
    changes_.name_space = cluster.name_space();
    changes_.pull_secret = options_.pull_secret;
    changes_.tensorboard = submission_.spec().tensorboard;
    changes_.image = options_.image;
  }

  Json spec() const override {
    Json job = job_;
    change_manifest(job, changes_);
    return job;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (options_.proxy_port) {
      notes.push_back(
          "--proxy-port is ignored: images go through the API server, without a port on this "
          "machine");
    }
    return notes;
  }

  Submitted send() override {
    if (!options_.quiet) {
      for (const std::string& note : notes()) talk("adaptdl: " + note);
    }
    check_tensorboard();
    if (changes_.image.empty()) {
      const Interruption interruption = sweep_on_signals();
      changes_.image = push_image();
    }
    // Signals are deferred, so that the volume and the job are created together.
    const Interruption interruption({SIGINT, SIGTERM});
    changes_.claim = "adaptdl-pvc-" + random_uuid();
    Json stored;
    try {
      // Created before the job, whose pods would wait for it; later the job becomes its owner.
      create_claim();
      if (interruption.signal() != 0) {
        throw Error("interrupted; nothing was submitted", ExitCode::interrupted);
      }
      stored = create_job();
      check_accelerators_of(stored);
    } catch (const Error& error) {
      remove_claim(error);
      throw;
    }
    const std::string name = stored["metadata"].value("name", "");
    give_claim_to(stored);
    if (interruption.signal() != 0) {
      throw Error(fmt::format("interrupted, but {} was already submitted", name),
                  ExitCode::interrupted);
    }
    return {name, ""};
  }

 private:
  void check_accelerators_of(const Json& stored) {
    if (!spec()["spec"].contains("accelerators") || stored["spec"].contains("accelerators")) return;
    cluster_.client().remove(cluster_.jobs(stored["metadata"].value("name", "")));
    cluster_.lacks_field("accelerators");
  }

  // If the answer is lost, the job may exist nevertheless.
  Json create_job() {
    return cluster_.reach([&] {
      try {
        return cluster_.client().create(cluster_.jobs(), spec());
      } catch (const Error& error) {
        if (!may_have_arrived(error)) throw;
        for (const Json& job : cluster_.client().list(cluster_.jobs()).items) {
          if (storage_claim(job) == changes_.claim) return job;
        }
        throw;
      }
    });
  }

  static bool may_have_arrived(const Error& error) {
    if (const auto* broken = dynamic_cast<const HttpError*>(&error)) {
      return broken->may_have_arrived();
    }
    const auto* refused = dynamic_cast<const kube::ApiError*>(&error);
    return refused != nullptr &&
           refused->code() >= 500;  // from the API server, or from a proxy before it
  }

  kube::Resource claim() const { return kube::kClaims.in(cluster_.name_space(), changes_.claim); }

  // Called if the job was not created. `why`: the error that the user sees first.
  void remove_claim(const Error& why) {
    try {
      cluster_.client().remove(claim());
    } catch (const Error& error) {
      throw Error(fmt::format("{}. Its volume {} may exist, and adaptdl cannot remove it: {}",
                              why.what(), changes_.claim, error.what()),
                  why.exit_code());
    }
  }

  // The cluster then deletes the claim with the job.
  void give_claim_to(const Json& job) {
    const Json owner = {{"apiVersion", "adaptdl.petuum.com/v1"},
                        {"kind", "AdaptDLJob"},
                        {"name", job["metadata"]["name"]},
                        {"uid", job["metadata"]["uid"]}};
    try {
      cluster_.client().patch(claim(), kube::PatchKind::merge,
                              {{"metadata",
                                {{"labels",
                                  {{kubernetes::kLabelAdaptdl, "true"},
                                   {kubernetes::kLabelJob, job["metadata"]["name"]}}},
                                 {"ownerReferences", Json::array({owner})}}}});
    } catch (const Error& error) {
      talk(
          fmt::format("adaptdl: the job was submitted, but deleting it will keep its volume {}: {}",
                      changes_.claim, error.what()));
    }
  }

  void check_source() const {
    if (submission_.source_kind == Submission::Source::file) {
      fail(
          "{}: cannot submit a file to a Kubernetes cluster; give a folder: a {} with its data, or "
          "a project with a job file",
          *options_.source, kArchiveName);
    }
  }

  // An AdaptDLJob is submitted as it is, except for the flags.
  void take_job() {
    const JobSpec& spec = submission_.spec();
    if (submission_.job.manifest) {
      job_ = *submission_.job.manifest;
      if (spec.name.empty()) changes_.name_prefix = spec.name_prefix;
      changes_.arguments = options_.words;
      changes_.replicas = submission_.replicas;
      changes_.retries = options_.max_restarts;
      changes_.accelerators = options_.accelerators;
      changes_.restartable = options_.restartable;
      changes_.role = options_.role.value_or("");
      return;
    }
    trains_ = spec.kind != JobSpec::Kind::command;
    if (!spec.data.empty()) {
      fail(
          "data: {}: a cluster's pods do not have this machine's files; remove `data`, list the "
          "path in .adaptdlignore, and give the pods the data with a volume in an AdaptDLJob "
          "(adaptdl-job(5)), or let the program fetch it",
          spec.data.front());
    }
    if (spec.checkpoint_size && !options_.storage_size) {
      storage_size_ = std::to_string(*spec.checkpoint_size);
    }
    job_ = manifest_of(spec);
  }

  // The folder's image, or without a folder the image in the job file.
  std::string push_image() {
    const std::string named = manifest_image(job_);
    if (folder_.empty()) return named;
    ProjectImage project;
    project.folder = folder_;
    project.platform = image_platform();
    const std::string own = join_path(folder_, "Dockerfile");
    if (options_.dockerfile) {
      project.dockerfile = absolute_path(*options_.dockerfile);
    } else if (path_exists(own)) {
      project.dockerfile = own;
    }
    project.base = options_.base.value_or(named);
    ImageTarget target = {
        .plain_http = options_.plain_http, .quiet = options_.quiet, .verbose = options_.verbose};
    if (const std::string& repository = options_.repository; !repository.empty()) {
      target.where = oci::parse_repository(repository, "--repo");
    } else {
      ClusterRegistry registry =
          find_cluster_registry(cluster_,
                                "set --repo or ADAPTDL_SUBMIT_REPO to a repository that the "
                                "cluster pulls from, or use an "
                                "existing image with --image");
      target.where = registry.where;
      target.proxy = registry.proxy;
    }
    if (trains_ && project.dockerfile.empty() && project.base.empty()) {
      project.base = training_image(target, project.platform);
    }
    if (project.dockerfile.empty() && project.base.empty()) {
      fail(
          "{}: no Dockerfile and no base image; name one with --base or as the first container's "
          "image in the job file, or use a complete image with --image",
          folder_);
    }
    return deliver_project(project, target).image;
  }

  // The nodes' platform. If they have several, the job stays on nodes that can run the image.
  oci::Platform image_platform() {
    std::optional<oci::Platform> wanted;
    if (options_.platform) {
      wanted = oci::parse_platform(*options_.platform, "--platform");
    }
    const NodePlatform found = node_platform(nodes(), job_["spec"]["template"]["spec"],
                                             submission_.spec().request.accelerators, wanted);
    if (!found.pins) return found.platform;
    changes_.architecture = found.platform.architecture;
    if (!options_.quiet) {
      talk(
          fmt::format("adaptdl: the nodes have several architectures; the image and the job are "
                      "for {} (change it with --platform)",
                      found.platform.architecture));
    }
    return found.platform;
  }

  // Empty if the user may not list nodes.
  std::vector<Json> nodes() {
    return cluster_.reach([&]() -> std::vector<Json> {
      try {
        // For a thousand nodes the lists of images would be most of the memory.
        const auto trim = [](Json& node) { node["status"].erase("images"); };
        return cluster_.client().list(kube::kNodes, {.trim = trim}).items;
      } catch (const kube::ApiError& error) {
        if (!error.forbidden()) throw;
        return {};
      }
    });
  }

  // Without the instance, the job's pods would wait for its volume for ever.
  void check_tensorboard() {
    const std::string& name = changes_.tensorboard;
    if (name.empty()) return;
    const auto claim = kube::kClaims.in(cluster_.name_space(), tensorboard_object_name(name));
    const auto found = cluster_.reach([&] { return cluster_.client().find(claim); });
    if (found && !found->at("metadata").contains("deletionTimestamp")) return;
    fail(
        "TensorBoard instance {} not found in namespace {} of cluster {}; create it with `adaptdl "
        "tensorboard create {}`",
        name, cluster_.name_space(), cluster_.name(), name);
  }

  // The image that `image push --with-torch` has pushed to the projects' repository.
  static std::string training_image(const ImageTarget& target, const oci::Platform& platform) {
    const oci::Reference& where = *target.where;
    const std::string name =
        fmt::format("{}/{}:{}", where.registry, where.repository, kTrainingTag);
    try {
      ImageProgress silent(true);
      base_image(name, platform, target, silent);
    } catch (const Error& error) {
      if (error.exit_code() == ExitCode::auth) throw;
      const std::string place = target.proxy.url.empty() ? name + " " : "";
      fail(
          "{}: no base image for training: {}; create it once with `adaptdl image push "
          "{}--with-torch`, or name another image with --base",
          name, error.what(), place);
    }
    return name;
  }

  void create_claim() {
    const Json spec = shared_claim_spec(cluster_, storage_size_, options_.storage_class);
    cluster_.reach([&] {
      return cluster_.client().create(kube::kClaims.in(cluster_.name_space()),
                                      {{"apiVersion", "v1"},
                                       {"kind", "PersistentVolumeClaim"},
                                       {"metadata", {{"name", changes_.claim}}},
                                       {"spec", spec}});
    });
  }

  KubernetesConnection& cluster_;
  const Submission submission_;
  const SubmitOptions& options_ = submission_.options;
  const std::string& folder_ = submission_.source;  // "": the image is complete
  bool trains_ = false;                             // with the image's own adaptdl
  std::string storage_size_;
  Json job_;
  ManifestChanges changes_;
};

}  // namespace

std::unique_ptr<JobRequest> kubernetes_job_request(KubernetesConnection& cluster,
                                                   Submission submission) {
  return std::make_unique<KubernetesJobRequest>(cluster, std::move(submission));
}

}  // namespace adaptdl::client
