#pragma once

// Media types of registry objects, in OCI's and in Docker's spelling. Both mean the same.

#include <string_view>

namespace adaptdl::oci {

inline constexpr const char* kOciIndex = "application/vnd.oci.image.index.v1+json";
inline constexpr const char* kOciManifest = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kOciConfig = "application/vnd.oci.image.config.v1+json";
inline constexpr const char* kOciLayer = "application/vnd.oci.image.layer.v1.tar+gzip";
inline constexpr const char* kDockerIndex =
    "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr const char* kDockerManifest =
    "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr const char* kDockerConfig = "application/vnd.docker.container.image.v1+json";
inline constexpr const char* kDockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip";

inline bool is_index(std::string_view type) {
  return type == kOciIndex || type == kDockerIndex;
}

// Layers that only their vendors may distribute: images refer to them, but they are never sent.
inline bool is_foreign_layer(std::string_view type) {
  return type.find(".foreign.") != std::string_view::npos ||
         type.find(".nondistributable.") != std::string_view::npos;
}

}  // namespace adaptdl::oci
