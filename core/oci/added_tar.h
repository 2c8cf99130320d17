#pragma once

// ADD of a tar file: its content goes into the image.

#include <string>
#include <vector>

#include "core/oci/tar.h"

namespace adaptdl::oci {

// Whether ADD unpacks a file of that name.
bool is_tar_name(const std::string& path);

// Unpacks `archive` into `folder`, which it creates and which must exist as long as the entries are
// used. The entries go below `place` in the image, with the archive's modes and owners, but not its
// times. Throws Error for entries that untar() refuses or skips.
std::vector<TarEntry> unpack_tar(const std::string& archive, const std::string& folder,
                                 const std::string& place);

}  // namespace adaptdl::oci
