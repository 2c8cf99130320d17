#pragma once

// A cluster for tests of commands, chosen by a kubeconfig as users do it.

#include <fmt/format.h>
#include <string>

#include "core/base/files.h"
#include "core/client/cluster_choice.h"

namespace adaptdl::client {

// `cluster` and `user`: the inside of their flow mappings. Written into `folder`, which outlives
// the use of the choice.
inline ClusterChoice test_choice(const TemporaryDirectory& folder, const std::string& cluster,
                                 const std::string& name_space = "default",
                                 const std::string& user = "") {
  replace_file(
      folder.file("config"),
      fmt::format("current-context: lab\n"
                  "contexts: [{{name: lab, context: {{cluster: c, user: u, namespace: {}}}}}]\n"
                  "users: [{{name: u, user: {{{}}}}}]\n"
                  "clusters: [{{name: c, cluster: {{{}}}}}]\n",
                  name_space, user, cluster));
  ClusterChoice choice{.name = kKubernetesCluster, .by = "the test"};
  choice.kubernetes.kubeconfig = folder.file("config");
  return choice;
}

}  // namespace adaptdl::client
