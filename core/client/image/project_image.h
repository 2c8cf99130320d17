#pragma once

// Images for registries and archives: made of a project's folder, and handed out.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/client/image/progress.h"
#include "core/oci/image.h"

namespace adaptdl::client {

// Where an image goes, and what the user hears of that.
struct ImageTarget {
  std::optional<oci::Reference> where = {};  // pushed there
  std::string archive = {};                  // written to that file; "": not written
  oci::RegistryProxy proxy = {};             // by which its registry is reached
  bool plain_http = false;                   // to registries, wherever they are
  bool quiet = false, verbose = false;
};

struct DeliveredImage {
  std::string image;         // with its digest, REGISTRY/NAME@sha256:...; "" if it was not pushed
  oci::Reference reference;  // with tag and digest, as far as they are known
  uint64_t bytes_sent = 0;   // as far as it is known: a tool does not say
};

// The image of that name; of nothing, if it is "" or "scratch". Throws Error.
oci::Image base_image(const std::string& name, const oci::Platform& platform,
                      const ImageTarget& target, ImageProgress& progress);

// Pushes it, without what the registry has already, and writes it.
DeliveredImage deliver(const oci::Image& image, const ImageTarget& target, ImageProgress& progress);

struct ProjectImage {
  std::string folder;      // absolute
  std::string dockerfile;  // its path; "": the folder goes onto `base`
  std::string base;        // as base_image() has it
  oci::Platform platform;
  std::map<std::string, std::string> arguments = {};  // of ARG
};

// Builds it, by a tool if there is a Dockerfile and a tool, and hands it out. Throws Error that
// says what to do: a Dockerfile needs a tool that is not here; the registry refuses.
DeliveredImage deliver_project(const ProjectImage& project, const ImageTarget& target);

}  // namespace adaptdl::client
