#include <algorithm>
#include <memory>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/image_progress.h"
#include "cli/image_self.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/hmac.h"
#include "core/base/number.h"
#include "core/job/project_files.h"
#include "core/oci/build.h"
#include "core/oci/build_tool.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMaxDockerfile = 1u << 20;

oci::Platform platform_of(const Arguments& arguments) {
  return arguments.given("platform") ? oci::parse_platform(arguments.text("platform"), "--platform")
                                     : oci::this_platform();
}

std::map<std::string, std::string> build_arguments(const Arguments& arguments) {
  std::map<std::string, std::string> result;
  for (const std::string& given : arguments.list("build-arg")) {
    const size_t sign = given.find('=');
    if (sign == std::string::npos || sign == 0) {
      throw UsageError(fmt::format("--build-arg: {} is no NAME=VALUE.", given));
    }
    result[given.substr(0, sign)] = given.substr(sign + 1);
  }
  return result;
}

oci::RegistryOptions registry_options(const Arguments& arguments, ImageProgress& progress) {
  oci::RegistryOptions options;
  options.plain_http = arguments.flag("plain-http");
  options.progress = [&](const oci::BlobProgress& blob) { progress.update(blob); };
  if (arguments.verbose()) options.trace = [](const std::string& line) { talk(line); };
  return options;
}

oci::Image base_image(const oci::Reference& reference, const oci::Platform& platform,
                      const oci::RegistryOptions& options) {
  return oci::pull_image(std::make_shared<oci::Registry>(reference, options), reference, platform);
}

oci::Image base_or_nothing(const Arguments& arguments, const oci::Platform& platform,
                           const oci::RegistryOptions& options) {
  const std::string name = arguments.text("base");
  if (name.empty() || name == "scratch") return oci::empty_image(platform);
  return base_image(oci::parse_reference(name, "--base"), platform, options);
}

// What was made: a line, or a record.
void say_result(const Arguments& arguments, const std::string& image, const oci::Reference& where,
                uint64_t sent, const std::string& output) {
  if (arguments.json()) {
    print_json({{"image", image.empty() ? Json() : Json(image)},
                {"digest", where.digest.empty() ? Json() : Json(where.digest)},
                {"tag", where.tag.empty() ? Json() : Json(where.tag)},
                {"bytes_sent", sent},
                {"output", output.empty() ? Json() : Json(output)}});
    return;
  }
  if (!image.empty()) print_line(image);
  if (!output.empty()) print_line(output);
}

std::string pinned(const oci::Reference& pushed) {
  return pushed.registry + "/" + pushed.repository + "@" + pushed.digest;
}

// Pushes and writes, as the command line says.
int hand_out(const Arguments& arguments, const oci::Image& image,
             const std::optional<oci::Reference>& where, const oci::RegistryOptions& options,
             ImageProgress& progress) {
  const std::string output = arguments.text("archive");
  oci::PushedImage pushed;
  if (where) {
    oci::Registry registry(*where, options);
    pushed = oci::push_image(image, registry, *where);
  }
  if (!output.empty()) {
    oci::Reference name = where.value_or(oci::Reference{"localhost", "adaptdl-image", "", ""});
    if (name.tag.empty()) name.tag = where ? pushed.reference.tag : "latest";
    oci::write_image_tar(image, output, name);
  }
  progress.end();
  if (where && !arguments.quiet()) {
    talk(fmt::format("pushed as {}; {} were sent", oci::to_string(pushed.reference),
                     format_bytes(pushed.bytes_sent)));
  }
  say_result(arguments, where ? pinned(pushed.reference) : "", pushed.reference, pushed.bytes_sent,
             output);
  return 0;
}

std::optional<oci::Reference> target(const Arguments& arguments) {
  if (!arguments.given("tag")) return std::nullopt;
  return oci::parse_repository(arguments.text("tag"), "--tag");
}

int build_by_tool(const Arguments& arguments, const std::string& tool, const std::string& folder,
                  const std::string& dockerfile, const std::optional<oci::Reference>& where) {
  const TemporaryDirectory notes("adaptdl-image");
  oci::ToolRequest request;
  request.tool = tool;
  request.folder = folder;
  request.dockerfile = dockerfile;
  request.where = where.value_or(oci::Reference{"localhost", "adaptdl-image", "latest", ""});
  if (request.where.tag.empty()) request.where.tag = "adaptdl-" + to_hex(random_bytes(10));
  request.platform = platform_of(arguments);
  request.arguments = build_arguments(arguments);
  request.push = where.has_value();
  request.output = arguments.text("archive");
  request.notes = notes.file("digest");
  const oci::Reference made = oci::build_with_tool(request);
  say_result(arguments, where ? pinned(made) : "", made, 0, request.output);
  return 0;
}

int build(const Arguments& arguments) {
  const std::string folder = absolute_path(*arguments.positional("DIR"));
  if (!is_directory(folder)) fail("{}: is no folder; give the project's folder", folder);
  const std::optional<oci::Reference> where = target(arguments);
  if (!where && !arguments.given("archive")) {
    throw UsageError("Nothing would come of it: give --tag REPO, --archive FILE, or both.");
  }
  const bool given = arguments.given("dockerfile");
  const std::string dockerfile =
      given ? absolute_path(arguments.text("dockerfile")) : join_path(folder, "Dockerfile");
  const oci::Platform platform = platform_of(arguments);
  ImageProgress progress(arguments.quiet() || arguments.verbose());
  const oci::RegistryOptions options = registry_options(arguments, progress);
  const TemporaryDirectory layers("adaptdl-image");
  oci::BuildOptions building;
  building.platform = platform;
  building.arguments = build_arguments(arguments);
  building.layers = layers.path();
  building.base = [&](const oci::Reference& reference, const oci::Platform& wanted) {
    return base_image(reference, wanted, options);
  };
  const auto warn = [&](const oci::BuildContext& context) {
    if (arguments.quiet()) return;
    for (const std::string& warning : context.warnings) talk(warning);
  };
  const bool by_file = given || (path_exists(dockerfile) && !arguments.given("base"));
  if (!by_file) {
    if (!arguments.given("base")) {
      throw UsageError(
          "There is no Dockerfile: give --base IMAGE, the image to put the folder on.");
    }
    const ProjectFiles files(folder);
    const oci::BuildContext context = oci::read_context(
        folder,
        [&](const std::string& path, bool is_folder) { return files.left_out(path, is_folder); });
    warn(context);
    const oci::Image image =
        oci::build_project(base_or_nothing(arguments, platform, options), context, building);
    return hand_out(arguments, image, where, options, progress);
  }
  if (arguments.given("base")) throw UsageError("--base goes with no Dockerfile, which says FROM.");
  const oci::Dockerfile file =
      oci::parse_dockerfile(read_file(dockerfile, kMaxDockerfile), dockerfile);
  const oci::FoundTool found = oci::find_build_tool();
  if (!found.tool.empty()) return build_by_tool(arguments, found.tool, folder, dockerfile, where);
  if (const auto why = oci::why_not_here(file)) {
    fail("{}{}", *why, found.problem.empty() ? "" : " (" + found.problem + ")");
  }
  const oci::BuildContext context = oci::read_context(folder);
  warn(context);
  return hand_out(arguments, oci::build_dockerfile(file, context, building), where, options,
                  progress);
}

int push(const Arguments& arguments) {
  const oci::Reference where = oci::parse_repository(*arguments.positional("REPO"), "REPO");
  ImageProgress progress(arguments.quiet() || arguments.verbose());
  const oci::RegistryOptions options = registry_options(arguments, progress);
  const TemporaryDirectory layers("adaptdl-image");
  oci::Image image = base_or_nothing(arguments, oci::this_platform(), options);
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
  return hand_out(arguments, image, where, options, progress);
}

Option base_option(std::string_view doc) {
  return {.name = "base", .kind = Kind::text, .value = "IMAGE", .doc = doc};
}
Option archive_option() {
  return {.name = "archive",
          .kind = Kind::file,
          .value = "FILE",
          .doc =
              "Write the image as an archive for `ctr image import`, `docker load` and `podman "
              "load`."};
}
Option plain_option() {
  return {.name = "plain-http", .doc = "Speak HTTP to registries, wherever they are."};
}

}  // namespace

Command image_build_command() {
  return {
      .name = "image build",
      .summary = "Make an image of a folder, and push or write it",
      .text = embedded("cmd_image.md"),
      .options = {{.name = "tag",
                   .letter = 't',
                   .kind = Kind::text,
                   .value = "REPO",
                   .doc = "Push it there: REGISTRY/NAME, or REGISTRY/NAME:TAG."},
                  {.name = "dockerfile",
                   .letter = 'f',
                   .kind = Kind::file,
                   .value = "FILE",
                   .doc = "Build by this Dockerfile. Default: the folder's own, unless --base is "
                          "given."},
                  base_option("Put the folder onto this image, or `scratch`, without a "
                              "Dockerfile."),
                  archive_option(),
                  {.name = "platform",
                   .kind = Kind::text,
                   .value = "OS/ARCH",
                   .doc = "Which image of a base to take, such as linux/arm64. Default: this "
                          "machine's."},
                  {.name = "build-arg",
                   .kind = Kind::text,
                   .value = "NAME=VALUE",
                   .doc = "A value for the Dockerfile's ARG.",
                   .repeat = true},
                  plain_option(),
                  format_option()},
      .positionals = {{.name = "DIR", .kind = Kind::directory, .doc = "The project's folder."}},
      .examples = {{"adaptdl image build . --base python:3.12 -t registry.example.com/me/app",
                    "One layer on Python's image."},
                   {"adaptdl image build . --archive app.tar", "By its Dockerfile, into a file."}},
      .run = build};
}

Command image_push_command() {
  return {.name = "image push",
          .summary = "Push this program as an image",
          .text = embedded("cmd_image.md"),
          .options = {base_option("Put it onto this image. Default: nothing but the C library of "
                                  "this machine."),
                      {.name = "with-torch",
                       .doc = "Add the LibTorch in use, so that the image can train."},
                      archive_option(),
                      plain_option(),
                      format_option()},
          .positionals = {{.name = "REPO", .doc = "REGISTRY/NAME, or REGISTRY/NAME:TAG."}},
          .examples = {{"adaptdl image push registry.example.com/me/adaptdl",
                        "For a cluster to run it."},
                       {"adaptdl image push registry.example.com/me/torch --with-torch",
                        "To train in."}},
          .run = push};
}

}  // namespace adaptdl::cli
