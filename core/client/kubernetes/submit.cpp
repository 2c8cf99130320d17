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
      throw UsageError("SOURCE is missing: the folder to make an image of; or give --image IMAGE.");
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
          "--proxy-port is not needed: images go through the API server without a port of this "
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
    // Between volume and job nothing is cut off.
    const Interruption interruption({SIGINT, SIGTERM});
    changes_.claim = "adaptdl-pvc-" + random_uuid();
    Json stored;
    try {
      // It is there before the job, whose pods would wait for it, and becomes the job's then.
      create_claim();
      if (interruption.signal() != 0) {
        throw Error("interrupted; nothing was submitted", ExitCode::interrupted);
      }
      stored = create_job();
    } catch (const Error& error) {
      remove_claim(error);
      throw;
    }
    const std::string name = stored["metadata"].value("name", "");
    give_claim_to(stored);
    if (interruption.signal() != 0) {
      throw Error(fmt::format("interrupted, but {} was submitted by then", name),
                  ExitCode::interrupted);
    }
    return {name, ""};
  }

 private:
  // Where the answer is lost on its way, the job may be there all the same.
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
           refused->code() >= 500;  // of the API server, or of what is before it
  }

  kube::Resource claim() const { return kube::kClaims.in(cluster_.name_space(), changes_.claim); }

  // Of a job that was not made. `why` is what the user is to hear first of all.
  void remove_claim(const Error& why) {
    try {
      cluster_.client().remove(claim());
    } catch (const Error& error) {
      throw Error(fmt::format("{}. Its volume {} may have been made and could not be removed: {}",
                              why.what(), changes_.claim, error.what()),
                  why.exit_code());
    }
  }

  // It goes with the job then.
  void give_claim_to(const Json& job) {
    const Json owner = {{"apiVersion", "adaptdl.petuum.com/v1"},
                        {"kind", "AdaptDLJob"},
                        {"name", job["metadata"]["name"]},
                        {"uid", job["metadata"]["uid"]}};
    try {
      cluster_.client().patch(claim(), kube::PatchKind::merge,
                              {{"metadata", {{"ownerReferences", Json::array({owner})}}}});
    } catch (const Error& error) {
      talk(fmt::format("adaptdl: the job runs, but its volume {} will not go with it: {}",
                       changes_.claim, error.what()));
    }
  }

  void check_source() const {
    if (submission_.source_kind == Submission::Source::file) {
      fail(
          "{}: a Kubernetes cluster takes a folder: a {} with its data, or a project with a job "
          "file in it",
          *options_.source, kArchiveName);
    }
  }

  // An AdaptDLJob goes as it stands, but for what the flags say.
  void take_job() {
    const JobSpec& spec = submission_.spec();
    if (submission_.job.manifest) {
      job_ = *submission_.job.manifest;
      if (spec.name.empty()) changes_.name_prefix = spec.name_prefix;
      changes_.arguments = options_.words;
      changes_.replicas = submission_.replicas;
      return;
    }
    trains_ = spec.kind != JobSpec::Kind::command;
    if (!spec.data.empty()) {
      fail(
          "data: {}: a cluster's pods do not have this machine's files. Leave `data` out, with the "
          "path in .adaptdlignore, and give the pods the data by a volume in an AdaptDLJob "
          "(adaptdl-job(5)), or let the program fetch it",
          spec.data.front());
    }
    if (spec.checkpoint_size && !options_.storage_size) {
      storage_size_ = std::to_string(*spec.checkpoint_size);
    }
    job_ = manifest_of(spec);
  }

  // The folder's image, or the one that the job file names where there is no folder.
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
    ImageTarget target = {.quiet = options_.quiet, .verbose = options_.verbose};
    if (const std::string& repository = options_.repository; !repository.empty()) {
      target.where = oci::parse_repository(repository, "--repo");
    } else {
      ClusterRegistry registry = find_cluster_registry(
          cluster_,
          "name a repository that the cluster pulls from with --repo or ADAPTDL_SUBMIT_REPO, or "
          "take an image as it is with --image");
      target.where = registry.where;
      target.proxy = registry.proxy;
    }
    if (trains_ && project.dockerfile.empty() && project.base.empty()) {
      project.base = training_image(target, project.platform);
    }
    if (project.dockerfile.empty() && project.base.empty()) {
      fail(
          "{}: there is no Dockerfile, and no image to put the folder on: name one with --base, as "
          "the first container's image in the job file, or take a whole one with --image",
          folder_);
    }
    return deliver_project(project, target).image;
  }

  // That of the nodes. Where they are of several the job is kept to those that can run it.
  oci::Platform image_platform() {
    std::optional<oci::Platform> wanted;
    if (options_.platform) {
      wanted = oci::parse_platform(*options_.platform, "--platform");
    }
    const NodePlatform found = node_platform(nodes(), job_["spec"]["template"]["spec"], wanted);
    if (!found.pins) return found.platform;
    changes_.architecture = found.platform.architecture;
    if (!options_.quiet) {
      talk(
          fmt::format("adaptdl: the nodes are of several architectures; the image, and so the "
                      "job, is for those of {} (--platform)",
                      found.platform.architecture));
    }
    return found.platform;
  }

  // None, for who may not list them.
  std::vector<Json> nodes() {
    return cluster_.reach([&]() -> std::vector<Json> {
      try {
        // Of a thousand nodes these would be most of the memory.
        const auto trim = [](Json& node) { node["status"].erase("images"); };
        return cluster_.client().list(kube::kNodes, {.trim = trim}).items;
      } catch (const kube::ApiError& error) {
        if (!error.forbidden()) throw;
        return {};
      }
    });
  }

  // Its pods would wait for its volume for ever.
  void check_tensorboard() {
    const std::string& name = changes_.tensorboard;
    if (name.empty()) return;
    const auto claim = kube::kClaims.in(cluster_.name_space(), tensorboard_object_name(name));
    const auto found = cluster_.reach([&] { return cluster_.client().find(claim); });
    if (found && !found->at("metadata").contains("deletionTimestamp")) return;
    fail(
        "there is no TensorBoard instance {} in namespace {} of cluster {}; `adaptdl tensorboard "
        "create {}` makes it",
        name, cluster_.name_space(), cluster_.name(), name);
  }

  // What `image push --with-torch` has put beside the projects' images.
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
          "{}: there is no image to train in ({}). Make one, once: `adaptdl image push "
          "{}--with-torch`; or name another with --base",
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
  const std::string& folder_ = submission_.source;  // "": the image has all that it runs
  bool trains_ = false;                             // by the image's own adaptdl
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
