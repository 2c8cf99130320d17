#include "cli/project_image.h"

#include "cli/image_progress.h"
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

std::string pinned(const oci::Reference& pushed) {
  return pushed.registry + "/" + pushed.repository + "@" + pushed.digest;
}

oci::Image pull(const oci::Reference& reference, const oci::Platform& platform,
                const oci::RegistryOptions& options) {
  return oci::pull_image(std::make_shared<oci::Registry>(reference, options), reference, platform);
}

std::string build_by_tool(const ProjectImage& project, const std::string& tool,
                          const std::string& dockerfile, const oci::Reference& where) {
  const TemporaryDirectory notes("adaptdl-submit");
  oci::ToolRequest request;
  request.tool = tool;
  request.folder = project.folder;
  request.dockerfile = dockerfile;
  request.where = where;
  // Never one that somebody else's next push would take away.
  if (request.where.tag.empty()) request.where.tag = "adaptdl-" + to_hex(random_bytes(10));
  request.platform = oci::this_platform();
  request.push = true;
  request.notes = notes.file("digest");
  return pinned(oci::build_with_tool(request));
}

void warn(const oci::BuildContext& context, const ProjectImage& project) {
  if (project.quiet) return;
  for (const std::string& warning : context.warnings) talk(warning);
}

}  // namespace

std::string push_project(const ProjectImage& project) {
  const oci::Reference where = oci::parse_repository(project.repository, "--repo");
  ImageProgress progress(project.quiet || project.verbose);
  oci::RegistryOptions options;
  options.progress = [&](const oci::BlobProgress& blob) { progress.update(blob); };
  if (project.verbose) options.trace = [](const std::string& line) { talk(line); };
  const TemporaryDirectory layers("adaptdl-submit");
  oci::BuildOptions building;
  building.platform = oci::this_platform();
  building.layers = layers.path();
  building.base = [&](const oci::Reference& reference, const oci::Platform& wanted) {
    return pull(reference, wanted, options);
  };
  const std::string dockerfile =
      project.dockerfile.empty() ? join_path(project.folder, "Dockerfile") : project.dockerfile;
  oci::Image image;
  if (!project.dockerfile.empty() || path_exists(dockerfile)) {
    const oci::Dockerfile file =
        oci::parse_dockerfile(read_file(dockerfile, kMaxDockerfile), dockerfile);
    const oci::FoundTool found = oci::find_build_tool();
    if (!found.tool.empty()) return build_by_tool(project, found.tool, dockerfile, where);
    if (const auto why = oci::why_not_here(file)) {
      fail("{}{}", *why, found.problem.empty() ? "" : " (" + found.problem + ")");
    }
    const oci::BuildContext context = oci::read_context(project.folder);
    warn(context, project);
    image = oci::build_dockerfile(file, context, building);
  } else if (project.base.empty()) {
    fail(
        "{}: there is no Dockerfile, and no image to put the folder on: name one with --base, as "
        "the first container's image in the job file, or take a whole one with --image",
        project.folder);
  } else {
    const ProjectFiles files(project.folder);
    const oci::BuildContext context = oci::read_context(
        project.folder,
        [&](const std::string& path, bool is_folder) { return files.left_out(path, is_folder); });
    warn(context, project);
    image = oci::build_project(
        pull(oci::parse_reference(project.base, "--base"), building.platform, options), context,
        building);
  }
  oci::Registry registry(where, options);
  const oci::PushedImage pushed = oci::push_image(image, registry, where);
  progress.end();
  if (!project.quiet) {
    talk(fmt::format("pushed as {}; {} were sent", oci::to_string(pushed.reference),
                     format_bytes(pushed.bytes_sent)));
  }
  return pinned(pushed.reference);
}

}  // namespace adaptdl::cli
