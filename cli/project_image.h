#pragma once

// A project's folder as an image in a registry, for a cluster to run.

#include <string>

namespace adaptdl::cli {

struct ProjectImage {
  std::string folder;      // absolute
  std::string dockerfile;  // its path; "": the folder's own, if there is one
  // Goes under the folder if there is no Dockerfile.
  std::string base;
  std::string repository;  // to push to
  bool quiet = false, verbose = false;
};

// Builds and pushes; what the registry has already is not sent again. The image with its digest,
// REGISTRY/NAME@sha256:... Throws Error that says what to do: there is neither Dockerfile nor base;
// a Dockerfile needs a tool that is not here; the registry refuses.
std::string push_project(const ProjectImage& project);

}  // namespace adaptdl::cli
