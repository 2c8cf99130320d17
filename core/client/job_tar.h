#pragma once

// Packs files of this machine into a tar stream for a job elsewhere.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/client/job_copy.h"

namespace adaptdl::client {

// Writes a file, or a folder with its contents, under the name `name`, with modes and times. Skips
// symlinks that may lead out of the folder (oci::leads_out), special files, and files that
// disappear meanwhile. Throws Error for an unreadable file, and what `sink` throws.
CopyResult pack_tar(const std::string& from, const std::string& name,
                    const std::function<void(std::string_view)>& sink);

// The same for some members of a folder, under their names in it.
CopyResult pack_members(const std::string& folder, const std::vector<std::string>& members,
                        const std::function<void(std::string_view)>& sink);

}  // namespace adaptdl::client
