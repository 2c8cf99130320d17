#pragma once

// Files of this machine as a tar file, for a job elsewhere.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/client/job_copy.h"

namespace adaptdl::client {

// Writes a file, or a folder with all in it, under the name `name`, with modes and times. A
// symbolic link in the folder that may lead out of it (oci::leads_out), and what is no file, are
// skipped, as is what goes meanwhile. Throws Error for what cannot be read, and what `sink` throws.
CopyResult pack_tar(const std::string& from, const std::string& name,
                    const std::function<void(std::string_view)>& sink);

// The same of some of a folder's, under their names there.
CopyResult pack_members(const std::string& folder, const std::vector<std::string>& members,
                        const std::function<void(std::string_view)>& sink);

}  // namespace adaptdl::client
