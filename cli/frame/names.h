#pragma once

namespace adaptdl::client {}

namespace adaptdl::cli {

// Commands use the names of jobs, clusters and images that core/client declares.
using namespace client;

}  // namespace adaptdl::cli
