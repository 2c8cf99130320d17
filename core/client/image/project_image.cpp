#include "core/client/image/project_image.h"

#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/job/project_files.h"
#include "core/oci/build.h"
#include "core/oci/build_tool.h"
#include "core/oci/digest.h"
#include "core/oci/image_output.h"
#include "core/oci/saved_image.h"

namespace adaptdl::client {
namespace {

constexpr size_t kMaxDockerfile = 1u << 20;

// The name of an image that has none.
oci::Reference local_name() {
  return {"localhost", "adaptdl-image", "latest", ""};
}

std::string pinned(const oci::Reference& pushed) {
  return pushed.registry + "/" + pushed.repository + "@" + pushed.digest;
}

// A registry behind the target's proxy is reachable only through it, and only for this process.
std::shared_ptr<oci::Registry> open_registry(const oci::Reference& where, const ImageTarget& target,
                                             ImageProgress& progress) {
  oci::RegistryOptions options;
  options.plain_http =
      target.plain_http && (!target.where || target.where->registry == where.registry);
  options.progress = [&](const oci::BlobProgress& blob) { progress.update(blob); };
  if (target.verbose) options.trace = [](const std::string& line) { talk(line); };
  const bool proxied =
      !target.proxy.url.empty() && target.where && target.where->registry == where.registry;
  if (!proxied) return std::make_shared<oci::Registry>(where, options);
  options.proxy = target.proxy;
  return std::make_shared<oci::Registry>(where, options, oci::CredentialPlaces{});
}

oci::Image pull(const oci::Reference& reference, const oci::Platform& platform,
                const ImageTarget& target, ImageProgress& progress) {
  return oci::pull_image(open_registry(reference, target, progress), reference, platform);
}

// The name under which a build tool keeps the image before we push or write it. It is the same for
// repeated builds, so that the next one replaces it, and differs from that of concurrent other
// builds.
oci::Reference name_in_store(const ProjectImage& project) {
  std::string facts = fmt::format("{}\n{}\n{}\n{}\n", getuid(), project.folder, project.dockerfile,
                                  oci::to_string(project.platform));
  for (const auto& [key, value] : project.arguments) facts += key + "=" + value + "\n";
  oci::Reference name = local_name();
  name.tag = oci::digest_of(facts).substr(std::string_view("sha256:").size(), 20);
  return name;
}

// Whether the tool itself can reach the registry as we would: without a proxy, and with TLS.
// Otherwise each tool needs a configuration of its own.
bool tool_may_push(const ImageTarget& target) {
  return target.where && target.proxy.url.empty() && !target.plain_http &&
         !oci::on_this_machine(target.where->registry);
}

DeliveredImage deliver_by_tool(const ProjectImage& project, const std::string& tool,
                               const ImageTarget& target, ImageProgress& progress) {
  const TemporaryDirectory folder("adaptdl-image");
  const bool pushes = tool_may_push(target);
  oci::ToolRequest request;
  request.tool = tool;
  request.folder = project.folder;
  request.dockerfile = project.dockerfile;
  request.name = name_in_store(project);
  if (pushes) request.where = target.where;
  request.platform = project.platform;
  request.arguments = project.arguments;
  if (!pushes || !target.archive.empty()) request.output = folder.file("image.tar");
  request.notes = folder.file("digest");
  // All builds of a project have one name in the tool's store. Where this fails, as in some network
  // file systems, they may disturb each other.
  const Fd lock = open_file(project.folder, O_RDONLY | O_DIRECTORY);
  ::flock(lock.get(), LOCK_EX);
  const oci::Reference made = oci::build_with_tool(request);
  if (pushes) {
    if (!target.archive.empty()) oci::copy_archive(request.output, target.archive);
    return {pinned(made), made, 0};
  }
  const std::string layers = folder.file("layers");
  make_directories(layers);
  return deliver(oci::read_saved_image(request.output, layers), target, progress);
}

oci::BuildContext context_of(const ProjectImage& project, const oci::LeftOut& left_out,
                             const ImageTarget& target) {
  oci::BuildContext context = oci::read_context(project.folder, left_out, project.dockerfile,
                                                oci::archive_files(target.archive));
  if (!target.quiet) {
    for (const std::string& warning : context.warnings) talk(warning);
  }
  return context;
}

}  // namespace

oci::Image base_image(const std::string& name, const oci::Platform& platform,
                      const ImageTarget& target, ImageProgress& progress) {
  if (name.empty() || name == "scratch") return oci::empty_image(platform);
  return pull(oci::parse_reference(name, "--base"), platform, target, progress);
}

DeliveredImage deliver(const oci::Image& image, const ImageTarget& target,
                       ImageProgress& progress) {
  oci::PushedImage pushed;
  if (target.where) {
    const auto registry = open_registry(*target.where, target, progress);
    pushed = oci::push_image(image, *registry, *target.where);
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
  const TemporaryDirectory layers("adaptdl-image");
  oci::BuildOptions building;
  building.platform = project.platform;
  building.arguments = project.arguments;
  building.layers = layers.path();
  building.base = [&](const oci::Reference& reference, const oci::Platform& platform) {
    return pull(reference, platform, target, progress);
  };
  if (project.dockerfile.empty()) {
    const ProjectFiles files(project.folder);
    const oci::BuildContext context = context_of(
        project,
        [&](const std::string& path, bool is_folder) { return files.left_out(path, is_folder); },
        target);
    return deliver(oci::build_project(base_image(project.base, project.platform, target, progress),
                                      context, building),
                   target, progress);
  }
  const std::string text = read_file(project.dockerfile, kMaxDockerfile);
  const oci::FoundTool found = oci::find_build_tool();  // it may support more than we do
  if (!found.tool.empty()) return deliver_by_tool(project, found.tool, target, progress);
  const oci::Dockerfile file = oci::parse_dockerfile(text, project.dockerfile);
  if (const auto why = oci::why_not_here(file)) {
    fail("{}{}", *why, found.problem.empty() ? "" : " (" + found.problem + ")");
  }
  const oci::BuildContext context = context_of(project, {}, target);
  return deliver(oci::build_dockerfile(file, context, building), target, progress);
}

}  // namespace adaptdl::client
