#pragma once

// Programs that build any Dockerfile: docker, podman, buildctl.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/oci/image.h"

namespace adaptdl::oci {

struct ToolRequest {
  std::string tool;        // "docker", "podman" or "buildctl"
  std::string folder;      // the context
  std::string dockerfile;  // its path
  Reference name;          // in the tool's own store, with a tag
  Platform platform;
  std::map<std::string, std::string> arguments = {};  // of ARG
  std::optional<Reference> where = {};                // pushed there
  std::string output = {};                            // an archive to write, "" for none
  std::string notes;                                  // a file that the tool writes the digest to
};

// The command line that builds; that of buildctl pushes and writes as well. `load`: docker's build
// knows --load. For tests.
std::vector<std::string> build_command(const ToolRequest& request, bool load);
// The command lines that then push and write the image, in order. For tests.
std::vector<std::vector<std::string>> output_commands(const ToolRequest& request);

struct FoundTool {
  std::string tool;  // "" if none can be used
  std::string
      problem;  // "docker is installed, but ...": why it cannot be used; "" if none is there
};
// The first of docker, podman and buildctl in PATH that answers.
FoundTool find_build_tool();

// Runs the tool to build, and to push or write. Its output goes to standard error. Without a tag in
// `where`, makes one of the image's ID, so that the same image gets the same tag; buildctl, which
// has no store to ask, gets a random one. Returns `where` with the tag and the digest, or `name` if
// it was not pushed. Throws Error if the tool fails.
Reference build_with_tool(ToolRequest request);

}  // namespace adaptdl::oci
