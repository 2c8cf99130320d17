#pragma once

// Which cluster a command is about: --cluster or ADAPTDL_CLUSTER, else `cluster` of the
// configuration file, else local. Nothing here touches a network.

#include <string>

#include "cli/parse.h"

namespace adaptdl::cli {

inline constexpr const char* kLocalCluster = "local";

struct ClusterChoice {
  std::string name;
  std::string by;  // "--cluster or ADAPTDL_CLUSTER", the configuration file's path, or "default"
};

// Throws Error "FILE:LINE: ..." for a configuration file that cannot be read.
ClusterChoice chosen_cluster(const Arguments& arguments);

// Throws Error, which names `--cluster local`, if the choice is a cluster that is not known.
void check_cluster(const ClusterChoice& choice);

// For commands that know the local cluster alone: both of the above.
void require_local_cluster(const Arguments& arguments);

}  // namespace adaptdl::cli
