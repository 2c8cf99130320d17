#include "cli/cluster_choice.h"

#include "cli/config_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/yaml.h"
#include "core/cluster/local/config.h"

namespace adaptdl::cli {

ClusterChoice chosen_cluster(const Arguments& arguments) {
  if (arguments.given("cluster"))
    return {arguments.text("cluster"), "--cluster or ADAPTDL_CLUSTER"};
  const std::string path = local::config_path();
  if (path_exists(path)) {
    YamlMapping top(parse_yaml(read_file(path, kMaxConfig), path), true);
    std::string name;
    if (top.read("cluster", name)) return {name, path};
  }
  return {kLocalCluster, "default"};
}

void check_cluster(const ClusterChoice& choice) {
  if (choice.name == kLocalCluster) return;
  fail(
      "cluster {} (by {}): this adaptdl knows only the local one; `--cluster local` uses it for "
      "one "
      "command, `adaptdl cluster use local` for all",
      choice.name, choice.by);
}

void require_local_cluster(const Arguments& arguments) {
  check_cluster(chosen_cluster(arguments));
}

}  // namespace adaptdl::cli
