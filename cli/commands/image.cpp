#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/interruption.h"
#include "core/base/number.h"
#include "core/client/image/image_self.h"
#include "core/client/image/project_image.h"
#include "core/client/kubernetes/cluster_registry.h"

namespace adaptdl::cli {
namespace {

oci::Platform platform_of(const Arguments& arguments) {
  return arguments.given("platform") ? oci::parse_platform(arguments.text("platform"), "--platform")
                                     : oci::this_platform();
}

std::map<std::string, std::string> build_arguments(const Arguments& arguments) {
  std::map<std::string, std::string> result;
  for (const std::string& given : arguments.list("build-arg")) {
    const size_t sign = given.find('=');
    if (sign == std::string::npos || sign == 0) {
      throw UsageError(fmt::format("--build-arg: {} is not NAME=VALUE.", given));
    }
    result[given.substr(0, sign)] = given.substr(sign + 1);
  }
  return result;
}

// The image's target, from the flags.
ImageTarget target_of(const Arguments& arguments, std::optional<oci::Reference> where) {
  return {.where = std::move(where),
          .archive = arguments.text("archive"),
          .plain_http = arguments.flag("plain-http"),
          .quiet = arguments.quiet(),
          .verbose = arguments.verbose()};
}

// Whether that is the file, pipe or device to which standard output goes.
bool is_standard_output(const std::string& path) {
  struct stat there {};
  struct stat here {};
  return stat(path.c_str(), &there) == 0 && fstat(STDOUT_FILENO, &here) == 0 &&
         there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

// Prints the result: a line, or a record. Nothing behind an archive.
int say_result(const Arguments& arguments, const DeliveredImage& made) {
  const std::string output = arguments.text("archive");
  if (!output.empty() && is_standard_output(output)) return 0;
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(text);
  };
  if (arguments.json()) {
    print_json({{"image", text_or_null(made.image)},
                {"digest", text_or_null(made.reference.digest)},
                {"tag", text_or_null(made.reference.tag)},
                {"bytes_sent", made.bytes_sent},
                {"output", text_or_null(output)}});
    return 0;
  }
  if (!made.image.empty()) print_line(made.image);
  if (!output.empty()) print_line(output);
  return 0;
}

int build(const Arguments& arguments) {
  const Interruption interruption = sweep_on_signals();
  ProjectImage project;
  project.folder = absolute_path(*arguments.positional("DIR"));
  if (!is_directory(project.folder)) {
    fail("{}: is not a folder; give the project's folder", project.folder);
  }
  std::optional<oci::Reference> where;
  if (arguments.given("tag")) where = oci::parse_repository(arguments.text("tag"), "--tag");
  if (!where && !arguments.given("archive")) {
    throw UsageError("the image has no target: give --tag REPO, --archive FILE, or both.");
  }
  project.platform = platform_of(arguments);
  project.arguments = build_arguments(arguments);
  project.base = arguments.text("base");
  const bool based = arguments.given("base");
  if (arguments.given("dockerfile")) {
    if (based)
      throw UsageError("--base: not possible with --dockerfile, whose FROM names the base image.");
    project.dockerfile = absolute_path(arguments.text("dockerfile"));
  } else if (!based) {
    project.dockerfile = join_path(project.folder, "Dockerfile");
    if (!path_exists(project.dockerfile)) {
      throw UsageError("no Dockerfile found: give --base IMAGE, the image to put the folder on.");
    }
  }
  return say_result(arguments, deliver_project(project, target_of(arguments, std::move(where))));
}

// Sets the target to the registry in the kubeconfig's cluster, found as in `submit`.
void aim_at_cluster(const Arguments& arguments, KubernetesConnection& cluster,
                    ImageTarget& target) {
  const ClusterRegistry registry = find_cluster_registry(cluster, "give REPO, REGISTRY/NAME");
  target.where = registry.where;
  target.proxy = registry.proxy;
  if (arguments.flag("with-torch")) target.where->tag = kTrainingTag;
}

int push(const Arguments& arguments) {
  const Interruption interruption = sweep_on_signals();
  std::optional<KubernetesConnection> cluster;  // outlives the target, which may use its connection
  ImageTarget target = target_of(arguments, std::nullopt);
  if (const auto repository = arguments.positional("REPO")) {
    target.where = oci::parse_repository(*repository, "REPO");
  } else {
    const kube::ConfigOptions config{.kubeconfig = arguments.text("kubeconfig"),
                                     .context = arguments.text("context")};
    cluster.emplace(ClusterChoice{kKubernetesCluster, "image push", config}, arguments.verbose());
    aim_at_cluster(arguments, *cluster, target);
  }
  ImageProgress progress(target.quiet || target.verbose);
  const TemporaryDirectory layers("adaptdl-image");
  oci::Image image = base_image(arguments.text("base"), oci::this_platform(), target, progress);
  std::optional<TrainingFiles> training;
  if (arguments.flag("with-torch")) {
    training = find_training_files(layers.path());
    if (!arguments.quiet()) {
      for (const std::string& warning : training->warnings) talk(warning);
      talk(fmt::format("LibTorch {} of {}, for {}: {}", training->libtorch.version,
                       training->libtorch.folder, training->cuda ? "CPUs and GPUs" : "CPUs",
                       format_bytes(training->bytes)));
    }
  }
  append_this_program(image, layers.path(), training ? &*training : nullptr, [&](uint64_t bytes) {
    progress.update("packing LibTorch", std::min(bytes, training->bytes), training->bytes);
  });
  return say_result(arguments, deliver(image, target, progress));
}

Option base_option(std::string_view doc) {
  return {.name = "base", .kind = Kind::text, .value = "IMAGE", .doc = doc};
}
Option archive_option() {
  return {
      .name = "archive",
      .kind = Kind::file,
      .value = "FILE",
      .doc =
          "Write the image as an archive for `ctr image import`, `docker load` or `podman load`."};
}
Option plain_option() {
  return {.name = "plain-http",
          .doc = "Use HTTP, without credentials, for a registry on another machine."};
}

}  // namespace

Command image_build_command() {
  return {
      .name = "image build",
      .summary = "Build an image from a folder, and push or write it",
      .text = embedded("image.md"),
      .options = {{.name = "tag",
                   .letter = 't',
                   .kind = Kind::text,
                   .value = "REPO",
                   .doc = "Push the image to REGISTRY/NAME or REGISTRY/NAME:TAG."},
                  {.name = "dockerfile",
                   .letter = 'f',
                   .kind = Kind::file,
                   .value = "FILE",
                   .doc = "Dockerfile to build. Default: the one in DIR, unless --base is given."},
                  base_option("Base image, or `scratch`; the folder becomes one layer on it, and a "
                              "Dockerfile is ignored."),
                  archive_option(),
                  {.name = "platform",
                   .kind = Kind::text,
                   .value = "OS/ARCH",
                   .doc =
                       "Platform of the base image, such as linux/arm64. Default: this machine's."},
                  {.name = "build-arg",
                   .kind = Kind::text,
                   .value = "NAME=VALUE",
                   .doc = "Value of an ARG of the Dockerfile.",
                   .repeat = true},
                  plain_option(),
                  format_option()},
      .positionals = {{.name = "DIR", .kind = Kind::directory, .doc = "The project's folder."}},
      .examples = {{"adaptdl image build . --base python:3.12 -t registry.example.com/me/app",
                    "One layer on the Python image."},
                   {"adaptdl image build . --archive ../app.tar",
                    "Build its Dockerfile into a file."}},
      .run = build};
}

Command image_push_command() {
  return {
      .name = "image push",
      .summary = "Push an image of this program",
      .text = embedded("image.md"),
      .options = {context_option(),
                  kubeconfig_option(),
                  base_option(
                      "Base image. Default: none; the image contains this machine's C library."),
                  {.name = "with-torch",
                   .doc = "Include the LibTorch in use, so that the image can train."},
                  archive_option(),
                  plain_option(),
                  format_option()},
      .positionals =
          {{.name = "REPO",
            .doc = "REGISTRY/NAME or REGISTRY/NAME:TAG. Default: the registry in the cluster.",
            .required = false}},
      .examples = {{"adaptdl image push registry.example.com/me/adaptdl",
                    "An image for a cluster's operator."},
                   {"adaptdl image push registry.example.com/me/digits:torch --with-torch",
                    "An image that can train."},
                   {"adaptdl image push --with-torch", "The same, in the cluster's own registry."}},
      .run = push};
}

}  // namespace adaptdl::cli
