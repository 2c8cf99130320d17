#include "cli/project_image.h"

#include <memory>

#include "cli/output.h"
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

// For what is written under no name, or built under one.
oci::Reference local_name() {
  return {"localhost", "adaptdl-image", "latest", ""};
}

std::string pinned(const oci::Reference& pushed) {
  return pushed.registry + "/" + pushed.repository + "@" + pushed.digest;
}

DeliveredImage deliver_by_tool(const ProjectImage& project, const std::string& tool,
                               const ImageTarget& target) {
  const TemporaryDirectory notes("adaptdl-image");
  oci::ToolRequest request;
  request.tool = tool;
  request.folder = project.folder;
  request.dockerfile = project.dockerfile;
  request.where = target.where.value_or(local_name());
  // Never one that somebody else's next push would take away.
  if (request.where.tag.empty()) request.where.tag = "adaptdl-" + to_hex(random_bytes(10));
  request.platform = project.platform;
  request.arguments = project.arguments;
  request.push = target.where.has_value();
  request.output = target.archive;
  request.notes = notes.file("digest");
  const oci::Reference made = oci::build_with_tool(request);
  return {target.where ? pinned(made) : "", made, 0};
}

oci::BuildContext context_of(const std::string& folder, const oci::LeftOut& left_out, bool quiet) {
  oci::BuildContext context = oci::read_context(folder, left_out);
  if (!quiet) {
    for (const std::string& warning : context.warnings) talk(warning);
  }
  return context;
}

}  // namespace

oci::RegistryOptions registry_options(const ImageTarget& target, ImageProgress& progress) {
  oci::RegistryOptions options;
  options.plain_http = target.plain_http;
  options.progress = [&](const oci::BlobProgress& blob) { progress.update(blob); };
  if (target.verbose) options.trace = [](const std::string& line) { talk(line); };
  return options;
}

oci::Image base_image(const std::string& name, const oci::Platform& platform,
                      const oci::RegistryOptions& options) {
  if (name.empty() || name == "scratch") return oci::empty_image(platform);
  const oci::Reference reference = oci::parse_reference(name, "--base");
  return oci::pull_image(std::make_shared<oci::Registry>(reference, options), reference, platform);
}

DeliveredImage deliver(const oci::Image& image, const ImageTarget& target,
                       const oci::RegistryOptions& options, ImageProgress& progress) {
  oci::PushedImage pushed;
  if (target.where) {
    oci::Registry registry(*target.where, options);
    pushed = oci::push_image(image, registry, *target.where);
  }
  if (!target.archive.empty()) {
    oci::Reference name = target.where.value_or(local_name());
    if (name.tag.empty()) name.tag = pushed.reference.tag;
    oci::write_image_tar(image, target.archive, name);
  }
  progress.end();
  if (target.where && !target.quiet) {
    talk(fmt::format("pushed as {}; {} were sent", oci::to_string(pushed.reference),
                     format_bytes(pushed.bytes_sent)));
  }
  return {target.where ? pinned(pushed.reference) : "", pushed.reference, pushed.bytes_sent};
}

DeliveredImage deliver_project(const ProjectImage& project, const ImageTarget& target) {
  ImageProgress progress(target.quiet || target.verbose);
  const oci::RegistryOptions options = registry_options(target, progress);
  const TemporaryDirectory layers("adaptdl-image");
  oci::BuildOptions building;
  building.platform = project.platform;
  building.arguments = project.arguments;
  building.layers = layers.path();
  building.base = [&](const oci::Reference& reference, const oci::Platform& platform) {
    return oci::pull_image(std::make_shared<oci::Registry>(reference, options), reference,
                           platform);
  };
  if (project.dockerfile.empty()) {
    const ProjectFiles files(project.folder);
    const oci::BuildContext context = context_of(
        project.folder,
        [&](const std::string& path, bool is_folder) { return files.left_out(path, is_folder); },
        target.quiet);
    return deliver(
        oci::build_project(base_image(project.base, project.platform, options), context, building),
        target, options, progress);
  }
  const oci::Dockerfile file =
      oci::parse_dockerfile(read_file(project.dockerfile, kMaxDockerfile), project.dockerfile);
  const oci::FoundTool found = oci::find_build_tool();
  if (!found.tool.empty()) return deliver_by_tool(project, found.tool, target);
  if (const auto why = oci::why_not_here(file)) {
    fail("{}{}", *why, found.problem.empty() ? "" : " (" + found.problem + ")");
  }
  const oci::BuildContext context = context_of(project.folder, {}, target.quiet);
  return deliver(oci::build_dockerfile(file, context, building), target, options, progress);
}

}  // namespace adaptdl::cli
