#include "cli/cluster_choice.h"

#include "cli/config_file.h"
#include "cli/invocation.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/yaml.h"
#include "core/cluster/local/config.h"

namespace adaptdl::cli {
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

// The first of the flags that speak of Kubernetes; "" if none is given.
std::string kubernetes_flag(const Arguments& arguments) {
  for (const char* name : {"context", "kubeconfig", "namespace"}) {
    if (arguments.given(name)) return fmt::format("--{}", name);
  }
  return "";
}

}  // namespace

ClusterChoice cluster_named(const std::string& name, const std::string& by,
                            const Arguments& arguments) {
  ClusterChoice choice{.name = name, .by = by};
  if (choice.local()) return choice;
  choice.kubernetes.kubeconfig = arguments.text("kubeconfig");
  choice.kubernetes.name_space = arguments.text("namespace");
  choice.kubernetes.context = name == kKubernetesCluster ? arguments.text("context") : name;
  return choice;
}

ClusterChoice chosen_cluster(const Arguments& arguments) {
  const std::string flag = kubernetes_flag(arguments), context = arguments.text("context");
  if (arguments.given("cluster")) {
    const std::string name = arguments.text("cluster");
    if (name == kLocalCluster && !flag.empty()) {
      throw UsageError(flag + ": the local cluster has none; leave it or --cluster local out.");
    }
    if (name != kKubernetesCluster && !context.empty() && name != context) {
      throw UsageError(
          fmt::format("--cluster {} and --context {} are two clusters.", name, context));
    }
    return cluster_named(name, kByFlag, arguments);
  }
  if (!context.empty()) return cluster_named(context, "--context", arguments);
  if (is_kubectl_plugin()) return cluster_named(kKubernetesCluster, "kubectl", arguments);
  const std::string path = local::config_path();
  const std::string name = configured(path);
  // A file of its own has other contexts than those that the configuration speaks of.
  if (!flag.empty() && (name.empty() || name == kLocalCluster || flag == "--kubeconfig")) {
    return cluster_named(kKubernetesCluster, flag, arguments);
  }
  if (!name.empty()) return cluster_named(name, path, arguments);
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

}  // namespace adaptdl::cli
