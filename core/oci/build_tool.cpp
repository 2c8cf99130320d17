#include "core/oci/build_tool.h"

#include <algorithm>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"

namespace adaptdl::oci {
namespace {

constexpr Seconds kAnswers{15.0};
constexpr size_t kMaxNotes = 4u << 20;

std::string full_name(const Reference& where) {
  return where.registry + "/" + where.repository + ":" + where.tag;
}

void run_tool(const std::vector<std::string>& command) {
  SpawnOptions options;
  options.argv = command;
  options.descriptors = {{STDERR_FILENO, STDOUT_FILENO}};
  const ExitStatus status = spawn(options).wait();
  if (!status.success()) {
    fail("`{} {}` failed: {}; see its output above", command[0], command[1], status.describe());
  }
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
  if (request.tool == "docker") return docker_digest(request.where);
  const std::string text = read_file(request.notes, kMaxNotes);
  if (request.tool == "podman") return text.substr(0, text.find_first_of(" \n"));
  return json_get_or<std::string>(parse_json(text, "buildctl's notes"), "containerimage.digest",
                                  "buildctl's notes", "");
}

}  // namespace

std::vector<std::vector<std::string>> tool_commands(const ToolRequest& request) {
  const std::string name = full_name(request.where);
  const std::string platform = to_string(request.platform);
  if (request.tool == "buildctl") {
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
    if (request.push) {
      command.insert(command.end(), {"--output", "type=image,name=" + name + ",push=true",
                                     "--metadata-file", request.notes});
    }
    if (!request.output.empty()) {
      command.insert(command.end(),
                     {"--output", "type=docker,name=" + name + ",dest=" + request.output});
    }
    return {command};
  }
  const std::string& tool = request.tool;
  std::vector<std::string> build = {tool, "build", "--platform", platform, "-f", request.dockerfile,
                                    "-t", name};
  for (const auto& [key, value] : request.arguments) {
    build.insert(build.end(), {"--build-arg", key + "=" + value});
  }
  build.push_back(request.folder);
  std::vector<std::vector<std::string>> commands = {build};
  if (request.push && tool == "docker") commands.push_back({tool, "push", name});
  if (request.push && tool == "podman") {
    commands.push_back({tool, "push", "--digestfile", request.notes, name});
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

Reference build_with_tool(const ToolRequest& request) {
  for (const std::vector<std::string>& command : tool_commands(request)) run_tool(command);
  Reference result = request.where;
  if (request.push) {
    result.digest = pushed_digest(request);
    if (!is_digest(result.digest)) {
      fail("{} did not report the digest of the image that it pushed as {}", request.tool,
           full_name(request.where));
    }
  }
  return result;
}

}  // namespace adaptdl::oci
