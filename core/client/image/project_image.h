#pragma once

// Images for registries and archives: builds them from a project's folder, and delivers them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/client/image/progress.h"
#include "core/oci/image.h"

namespace adaptdl::client {

// Where an image goes, and which messages the user gets.
struct ImageTarget {
  std::optional<oci::Reference> where = {};  // pushed there
  std::string archive = {};                  // written to that file; "": not written
  oci::RegistryProxy proxy = {};             // to reach its registry
  bool plain_http = false;                   // for its registry; for all if it goes to none
  bool quiet = false, verbose = false;
};

struct DeliveredImage {
  std::string image;         // with its digest, REGISTRY/NAME@sha256:...; "" if it was not pushed
  oci::Reference reference;  // with tag and digest, as far as known
  uint64_t bytes_sent = 0;   // as far as known: build tools do not report it
};

// The image of that name; an empty image for "" or "scratch". Throws Error.
oci::Image base_image(const std::string& name, const oci::Platform& platform,
                      const ImageTarget& target, ImageProgress& progress);

// Pushes the image, except blobs that the registry has already, and writes the archive.
DeliveredImage deliver(const oci::Image& image, const ImageTarget& target, ImageProgress& progress);

struct ProjectImage {
  std::string folder;      // absolute
  std::string dockerfile;  // its path; "": copies the folder onto `base`
  std::string base;        // as base_image() has it
  oci::Platform platform;
  std::map<std::string, std::string> arguments = {};  // of ARG
};

// Builds the image and delivers it. With a Dockerfile and an installed build tool, the tool builds
// it. Throws an Error that says what to do if a Dockerfile needs a tool that is missing, or if the
// registry refuses.
DeliveredImage deliver_project(const ProjectImage& project, const ImageTarget& target);

}  // namespace adaptdl::client
