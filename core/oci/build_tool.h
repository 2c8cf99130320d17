#pragma once

// Programs that build any Dockerfile: docker, podman, buildctl.

#include <map>
#include <string>
#include <vector>

#include "core/oci/image.h"

namespace adaptdl::oci {

struct ToolRequest {
  std::string tool;        // "docker", "podman" or "buildctl"
  std::string folder;      // the context
  std::string dockerfile;  // its path
  Reference where;         // with a tag
  Platform platform;
  std::map<std::string, std::string> arguments = {};  // of ARG
  bool push = false;
  std::string output = {};  // an archive to write, "" for none
  std::string notes;        // a file that the tool writes the digest to
};

// The command lines to run, in order. For tests.
std::vector<std::vector<std::string>> tool_commands(const ToolRequest& request);

struct FoundTool {
  std::string tool;  // "" if none can be used
  std::string
      problem;  // "docker is installed, but ...": why it cannot be used; "" if none is there
};
// The first of docker, podman and buildctl in PATH that answers.
FoundTool find_build_tool();

// Runs the tool to build, and to push or write. Its output goes to standard error. Returns the
// reference, with the digest if it was pushed. Throws Error if the tool fails.
Reference build_with_tool(const ToolRequest& request);

}  // namespace adaptdl::oci
