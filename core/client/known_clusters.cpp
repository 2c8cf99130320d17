#include "core/client/known_clusters.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/json.h"

namespace adaptdl::client {
namespace {

constexpr size_t kMaxFile = 1u << 20;

std::string file_path() {
  return join_path(state_directory(), "clusters.json");
}

// {"SERVER": {"told": whether the hint was shown}}; empty if the file is missing or damaged.
Json read_known(const std::string& path) {
  if (!path_exists(path)) return Json::object();
  Json known = parse_json(read_file(path, kMaxFile), path);
  return known.is_object() ? known : Json::object();
}

void write_known(const std::string& path, const Json& known) {
  make_directories(parent_directory(path), 0700);
  replace_file(path, dump_json(known), 0600);
}

}  // namespace

void remember_cluster(const kube::Config& config) {
  if (config.context.empty()) return;  // a pod uses its own cluster anyway
  try {
    const std::string path = file_path();
    Json known = read_known(path);
    if (known.contains(config.server)) return;
    known[config.server] = {{"told", false}};
    write_known(path, known);
  } catch (const Error&) {  // without it there is no hint
  }
}

std::string cluster_hint() {
  try {
    const std::string path = file_path();
    Json known = read_known(path);
    if (known.empty()) return "";
    const kube::Config config = kube::load_config({});
    const auto found = known.find(config.server);
    if (found == known.end() || found->value("told", true)) return "";
    (*found)["told"] = true;
    write_known(path, known);  // first, so that the hint is not repeated if writing fails
    return fmt::format(
        "the job goes to the local cluster. The kubeconfig's context {} has AdaptDL, too: use it "
        "with `--cluster kubernetes`, or always with `adaptdl cluster use kubernetes`.",
        config.context);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace adaptdl::client
