#include "core/oci/build_tool.h"

#include <algorithm>
#include <unistd.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"

namespace adaptdl::oci {
namespace {

constexpr Seconds kAnswers{15.0};
constexpr Seconds kRemoves{300.0};  // an image of many gigabytes
constexpr size_t kMaxNotes = 4u << 20;
constexpr size_t kIdDigits = 20;  // of the image's ID: enough to be unique
constexpr std::string_view kAlgorithm = "sha256:";

std::string full_name(const Reference& where) {
  return where.registry + "/" + where.repository + ":" + where.tag;
}

// `repeatable`: docker adds no attestation. That contains the time, and with it the same image
// would get another ID each time.
void run_tool(const std::vector<std::string>& command, bool repeatable = false) {
  SpawnOptions options;
  options.argv = command;
  options.descriptors = {{STDERR_FILENO, STDOUT_FILENO}};
  if (repeatable) {
    options.environment = environment_with({{"BUILDX_NO_DEFAULT_ATTESTATIONS", "1"}});
  }
  const ExitStatus status = spawn(options).wait();
  if (!status.success()) {
    fail("`{} {}` failed: {}; see its output above", command[0], command[1], status.describe());
  }
}

// Whether it succeeds does not matter: often there is no such name.
void remove_name(std::vector<std::string> command, const Reference& name) {
  SpawnOptions options;
  options.argv = std::move(command);
  options.argv.push_back(full_name(name));
  run_and_capture(options, kRemoves, true);
}

// Whether `docker build` can be told to load the image into docker's store. Then its builder may be
// one that otherwise does not.
bool docker_knows_load() {
  SpawnOptions options;
  options.argv = {"docker", "build", "--help"};
  return run_and_capture(options, kAnswers, true).output.find(" --load") != std::string::npos;
}

// The digits of the ID of the image that was built.
std::string built_id(const ToolRequest& request) {
  SpawnOptions options;
  options.argv = {request.tool, "image", "inspect", "--format", "{{.Id}}", full_name(request.name)};
  const CapturedRun run = run_and_capture(options, kAnswers);
  std::string id = run.output.substr(0, run.output.find('\n'));
  if (id.starts_with(kAlgorithm)) id.erase(0, kAlgorithm.size());  // docker's do, podman's do not
  if (run.status.success() && is_digest(std::string(kAlgorithm) + id)) return id;
  fail(
      "`{} build` succeeded, but {} does not have the image {}{}", request.tool, request.tool,
      full_name(request.name),
      request.tool == "docker"
          ? ": the builder did not load it; use docker's own builder: `docker buildx use default`, "
            "with BUILDX_BUILDER unset"
          : "");
}

// docker lists the digest with the repository's name, among other names of the same image.
std::string docker_digest(const Reference& where) {
  SpawnOptions options;
  options.argv = {"docker",        "image", "inspect", "--format", "{{json .RepoDigests}}",
                  full_name(where)};
  const CapturedRun run = run_and_capture(options, kAnswers);
  if (!run.status.success()) return "";
  for (const auto& name : parse_json(run.output, "docker image inspect").get<std::vector<Json>>()) {
    const Reference found = parse_reference(name.get<std::string>(), "docker image inspect");
    if (found.registry == where.registry && found.repository == where.repository) {
      return found.digest;
    }
  }
  return "";
}

std::string pushed_digest(const ToolRequest& request) {
  if (request.tool == "docker") return docker_digest(*request.where);
  const std::string text = read_file(request.notes, kMaxNotes);
  if (request.tool == "podman") return text.substr(0, text.find_first_of(" \n"));
  return json_get_or<std::string>(parse_json(text, "buildctl's notes"), "containerimage.digest",
                                  "buildctl's notes", "");
}

void push_and_write(const ToolRequest& request, Reference& pushed) {
  for (const std::vector<std::string>& command : output_commands(request)) run_tool(command);
  if (!request.where) return;
  pushed.digest = pushed_digest(request);
  if (!is_digest(pushed.digest)) {
    fail("{} did not report the digest of the image that it pushed as {}", request.tool,
         full_name(*request.where));
  }
}

}  // namespace

std::vector<std::string> build_command(const ToolRequest& request, bool load) {
  const std::string platform = to_string(request.platform);
  if (request.tool == "buildctl") {
    const std::string name = full_name(request.where.value_or(request.name));
    std::vector<std::string> command = {
        "buildctl",   "build",
        "--frontend", "dockerfile.v0",
        "--local",    "context=" + request.folder,
        "--local",    "dockerfile=" + parent_directory(request.dockerfile),
        "--opt",      "filename=" + file_name(request.dockerfile),
        "--opt",      "platform=" + platform};
    for (const auto& [key, value] : request.arguments) {
      command.insert(command.end(), {"--opt", "build-arg:" + key + "=" + value});
    }
    if (request.where) {
      command.insert(command.end(), {"--output", "type=image,name=" + name + ",push=true",
                                     "--metadata-file", request.notes});
    }
    if (!request.output.empty()) {
      command.insert(command.end(),
                     {"--output", "type=docker,name=" + name + ",dest=" + request.output});
    }
    return command;
  }
  std::vector<std::string> command = {
      request.tool,       "build", "--platform",           platform, "-f",
      request.dockerfile, "-t",    full_name(request.name)};
  if (load) command.push_back("--load");
  for (const auto& [key, value] : request.arguments) {
    command.insert(command.end(), {"--build-arg", key + "=" + value});
  }
  command.push_back(request.folder);
  return command;
}

std::vector<std::vector<std::string>> output_commands(const ToolRequest& request) {
  const std::string& tool = request.tool;
  if (tool == "buildctl") return {};
  const std::string name = full_name(request.where.value_or(request.name));
  std::vector<std::vector<std::string>> commands;
  if (request.where) {
    commands.push_back({tool, "tag", full_name(request.name), name});
    commands.push_back(tool == "docker" ? std::vector<std::string>{tool, "push", name}
                                        : std::vector<std::string>{tool, "push", "--digestfile",
                                                                   request.notes, name});
  }
  if (!request.output.empty()) {
    commands.push_back(tool == "docker"
                           ? std::vector<std::string>{tool, "save", "-o", request.output, name}
                           : std::vector<std::string>{tool, "save", "--format", "docker-archive",
                                                      "-o", request.output, name});
  }
  return commands;
}

FoundTool find_build_tool() {
  const std::vector<std::vector<std::string>> questions = {
      {"docker", "version", "--format", "{{.Server.Version}}"},
      {"podman", "version"},
      {"buildctl", "debug", "workers"}};
  FoundTool result;
  for (const std::vector<std::string>& question : questions) {
    SpawnOptions options;
    options.argv = question;
    CapturedRun run;
    try {
      run = run_and_capture(options, kAnswers, true);
      if (run.status.success()) return {question[0], ""};
    } catch (const Error&) {  // not installed, or does not answer
      continue;
    }
    std::string said = run.output;
    while (said.ends_with('\n')) said.pop_back();
    said.erase(0, said.rfind('\n') + 1);
    result.problem = fmt::format("{} is installed, but cannot be used: {}", question[0], said);
  }
  return result;
}

Reference build_with_tool(ToolRequest request) {
  const bool own_tag = request.where && request.where->tag.empty();
  if (request.tool == "buildctl") {
    if (own_tag) request.where->tag = "adaptdl-" + to_hex(random_bytes(kIdDigits / 2));
    run_tool(build_command(request, false));
  } else {
    const bool load = request.tool == "docker" && docker_knows_load();
    // If the builder loads nothing after all, an earlier build must not be taken for this one. The
    // legacy builder always loads, and needs the earlier image as its cache.
    if (load) remove_name({"docker", "image", "rm", "--force", "--no-prune"}, request.name);
    run_tool(build_command(request, load), own_tag);
    const std::string id = built_id(request);
    if (own_tag) request.where->tag = "adaptdl-" + id.substr(0, kIdDigits);
  }
  Reference result = request.where.value_or(request.name);
  // A tag that nobody asked for would keep the image in the store for ever; `name` goes on to keep
  // it until the next build.
  const auto forget_tag = [&] {
    if (!own_tag || request.tool == "buildctl") return;
    try {
      remove_name({request.tool, "image", "rm"}, result);
    } catch (const Error&) {  // it only takes up space
    }
  };
  try {
    push_and_write(request, result);
  } catch (...) {
    forget_tag();
    throw;
  }
  forget_tag();
  return result;
}

}  // namespace adaptdl::oci
