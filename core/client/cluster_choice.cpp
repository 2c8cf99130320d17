#include "core/client/cluster_choice.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/client/config_file.h"
#include "core/cluster/local/config.h"
#include "core/formats/yaml.h"

namespace adaptdl::client {
namespace {

constexpr const char* kByFlag = "--cluster or ADAPTDL_CLUSTER";

std::string configured(const std::string& path) {
  std::string name;
  if (path_exists(path)) {
    YamlMapping top(parse_yaml(read_file(path, kMaxConfig), path), true);
    top.read("cluster", name);
  }
  return name;
}

// The first flag that is specific to Kubernetes; "" if none is given.
std::string kubernetes_flag(const ClusterFlags& flags) {
  if (!flags.context.empty()) return "--context";
  if (!flags.kubeconfig.empty()) return "--kubeconfig";
  return flags.name_space.empty() ? "" : "--namespace";
}

}  // namespace

ClusterChoice cluster_named(const std::string& name, const std::string& by,
                            const ClusterFlags& flags) {
  ClusterChoice choice{.name = name, .by = by};
  if (choice.local()) return choice;
  choice.kubernetes.kubeconfig = flags.kubeconfig;
  choice.kubernetes.name_space = flags.name_space;
  choice.kubernetes.context = name == kKubernetesCluster ? flags.context : name;
  return choice;
}

ClusterChoice chosen_cluster(const ClusterFlags& flags) {
  const std::string flag = kubernetes_flag(flags);
  if (!flags.cluster.empty()) {
    if (flags.cluster == kLocalCluster && !flag.empty()) {
      throw UsageError(flag + ": not available for the local cluster; omit it or --cluster local.");
    }
    if (flags.cluster != kKubernetesCluster && !flags.context.empty() &&
        flags.cluster != flags.context) {
      throw UsageError(fmt::format("--cluster {} and --context {} name different clusters.",
                                   flags.cluster, flags.context));
    }
    return cluster_named(flags.cluster, kByFlag, flags);
  }
  if (!flags.context.empty()) return cluster_named(flags.context, "--context", flags);
  if (flags.kubectl) return cluster_named(kKubernetesCluster, "kubectl", flags);
  const std::string path = local::config_path();
  const std::string name = configured(path);
  // An explicit kubeconfig has other contexts than those named in the configuration file.
  if (!flag.empty() && (name.empty() || name == kLocalCluster || flag == "--kubeconfig")) {
    return cluster_named(kKubernetesCluster, flag, flags);
  }
  if (!name.empty()) return cluster_named(name, path, flags);
  return {.name = kLocalCluster, .by = "default"};
}

kube::Config kubernetes_config(const ClusterChoice& choice) {
  try {
    return kube::load_config(choice.kubernetes);
  } catch (const Error& error) {
    throw Error(fmt::format("cluster {} (by {}): {}; `--cluster local` uses this machine for one "
                            "command, `adaptdl cluster use local` for all",
                            choice.name, choice.by, error.what()),
                error.exit_code());
  }
}

}  // namespace adaptdl::client
