#pragma once

// Images to registries and into archives.

#include <cstdint>
#include <string>
#include <vector>

#include "core/oci/image.h"
#include "core/oci/reference.h"
#include "core/oci/registry.h"

namespace adaptdl::oci {

struct PushedImage {
  Reference reference;      // with the tag and the digest
  uint64_t bytes_sent = 0;  // of blobs; not counting blobs that existed or were mounted
};

// Sends the missing blobs, then the manifest. Without a tag, makes a unique one from the digest, so
// that later pushes do not replace the image. Foreign layers are referenced but not sent. Layers of
// a base in another registry are downloaded to a temporary file, one at a time.
PushedImage push_image(const Image& image, Registry& to, const Reference& where);

// Writes an archive that is both an OCI layout and in the format of `docker save`, for `ctr image
// import`, `docker load` and `podman load`. `name` is the image's name in it. Downloads the layers
// of the base. A file at `path` is replaced as a whole; a device or FIFO is written to, and what a
// symlink leads to is written instead of the link. Throws Error for an image with foreign layers.
void write_image_tar(const Image& image, const std::string& path, const Reference& name);

// Writes an archive that a tool has made to `path`, in the same way.
void copy_archive(const std::string& from, const std::string& path);

// The files that write_image_tar() writes for that path, also if it is killed. Empty for "".
std::vector<std::string> archive_files(const std::string& path);

}  // namespace adaptdl::oci
