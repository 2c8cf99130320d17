#pragma once

// Images from folders, without a daemon: by a Dockerfile that runs nothing, or as one layer on a
// base.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/oci/context.h"
#include "core/oci/dockerfile.h"
#include "core/oci/image.h"

namespace adaptdl::oci {

// Where what this program adds to a base lies: a folder that no base has.
inline constexpr const char* kAppFolder = "/adaptdl-app";

struct BuildOptions {
  Platform platform;
  std::map<std::string, std::string> arguments = {};  // of ARG
  std::string layers;  // a folder for the layers' files; stays until the image is pushed or written
  // The image of a base's name.
  std::function<Image(const Reference&, const Platform&)> base;
};

// Why a Dockerfile cannot be built here, "PATH:LINE: RUN ..."; nothing if it can: it is made of
// FROM, ARG, COPY, ADD of files (tar files, by name, are unpacked), ENV, WORKDIR, ENTRYPOINT, CMD,
// EXPOSE, LABEL, USER and MAINTAINER. What depends on values or the context is found by
// build_dockerfile().
std::optional<std::string> why_not_here(const Dockerfile& file);

// The last stage's image. Throws Error "PATH:LINE: ...".
Image build_dockerfile(const Dockerfile& file, const BuildContext& context,
                       const BuildOptions& options);

// The base with the context in kAppFolder, which becomes the working directory.
Image build_project(Image base, const BuildContext& context, const BuildOptions& options);

}  // namespace adaptdl::oci
