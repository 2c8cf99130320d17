#pragma once

// Images that tools have written as archives.

#include <string>

#include "core/oci/image.h"

namespace adaptdl::oci {

// Of what `docker save` and its like write. The layers are unpacked into `folder`, which exists,
// and stay there until the image is pushed or written. Throws Error for what is no such archive.
Image read_saved_image(const std::string& path, const std::string& folder);

}  // namespace adaptdl::oci
