#pragma once

#include <string>

#include "core/oci/image.h"

namespace adaptdl::cli {

// Adds this very program as /adaptdl-app/adaptdl, the image's entry point. An image of nothing
// also gets, in a layer of their own, the shared libraries that this process uses, their loader
// and the certificates of authorities. `folder` keeps the layers' files. Throws Error if they
// cannot be read.
void append_this_program(oci::Image& image, const std::string& folder);

// Paths of the files that a process has mapped, by its /proc/PID/maps, whose names are those of
// shared libraries; sorted. For tests.
std::vector<std::string> mapped_libraries(std::string_view maps);

}  // namespace adaptdl::cli
