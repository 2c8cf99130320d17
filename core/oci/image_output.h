#pragma once

// Images to registries and into archives.

#include <cstdint>
#include <string>

#include "core/oci/image.h"
#include "core/oci/reference.h"
#include "core/oci/registry.h"

namespace adaptdl::oci {

struct PushedImage {
  Reference reference;      // with the tag and the digest
  uint64_t bytes_sent = 0;  // of blobs; what was there already, or could be mounted, is not sent
};

// Sends what the registry lacks, then the manifest. Without a tag a unique one is made of the
// digest, so that the image stays reachable whatever is pushed later. Foreign layers are named and
// not sent. Layers of a base in another registry pass through a temporary file, one at a time.
PushedImage push_image(const Image& image, Registry& to, const Reference& where);

// Writes an archive that is an OCI layout and what `docker save` writes at once, for `ctr image
// import`, `docker load` and `podman load`. `name` is the image's in there. Reads the layers of
// the base. Throws Error for an image with foreign layers.
void write_image_tar(const Image& image, const std::string& path, const Reference& name);

}  // namespace adaptdl::oci
