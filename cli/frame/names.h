#pragma once

namespace adaptdl::client {}

namespace adaptdl::cli {

// Commands speak of jobs, clusters and images as core/client declares them.
using namespace client;

}  // namespace adaptdl::cli
