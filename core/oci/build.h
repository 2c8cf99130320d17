#pragma once

// Builds images from folders without a daemon: from a Dockerfile without RUN, or as one layer on a
// base image.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/oci/context.h"
#include "core/oci/dockerfile.h"
#include "core/oci/image.h"

namespace adaptdl::oci {

// The folder for files that this program adds to a base image; no base image has it.
inline constexpr const char* kAppFolder = "/adaptdl-app";

struct BuildOptions {
  Platform platform;
  std::map<std::string, std::string> arguments = {};  // of ARG
  std::string layers;  // a folder for the layers' files; stays until the image is pushed or written
  // Returns the base image of that name.
  std::function<Image(const Reference&, const Platform&)> base;
};

// Why a Dockerfile needs a build tool, "PATH:LINE: RUN ..."; nothing if it has only FROM, ARG,
// COPY, ADD of files (tar files, by name, are unpacked), ENV, WORKDIR, ENTRYPOINT, CMD, EXPOSE,
// LABEL, USER and MAINTAINER. build_dockerfile() finds what depends on values or the context.
std::optional<std::string> why_not_here(const Dockerfile& file);

// Returns the last stage's image. Throws Error "PATH:LINE: ...".
Image build_dockerfile(const Dockerfile& file, const BuildContext& context,
                       const BuildOptions& options);

// Returns the base with the context in kAppFolder, which becomes the working directory.
Image build_project(Image base, const BuildContext& context, const BuildOptions& options);

}  // namespace adaptdl::oci
