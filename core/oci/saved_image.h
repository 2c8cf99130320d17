#pragma once

// Reads images that build tools have written as archives.

#include <string>

#include "core/oci/image.h"

namespace adaptdl::oci {

// Reads an archive of `docker save` or a similar tool. Unpacks the layers into `folder`, which must
// exist until the image is pushed or written. Throws Error for an invalid archive.
Image read_saved_image(const std::string& path, const std::string& folder);

}  // namespace adaptdl::oci
