#include "core/cluster/local/config.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/yaml.h"

namespace adaptdl::local {

namespace {

SlotCounts read_slots(const YamlNode& node) {
  if (!node.is_mapping()) return {{"", static_cast<int>(node.integer(1, kMostSlots))}};
  SlotCounts counts;
  YamlMapping kinds(node);
  for (const std::string& kind : kinds.keys()) {
    counts.emplace_back(kind, static_cast<int>(kinds.find(kind).integer(1, kMostSlots)));
  }
  try {
    check_slot_counts(counts);
  } catch (const Error& error) {
    node.refuse(error.what());
  }
  return counts;
}

}  // namespace

std::string config_path() {
  return join_path(config_directory(), "config.yaml");
}

ServiceConfig read_service_config(const std::string& path) {
  ServiceConfig config;
  config.policy = std::string(default_policy());
  if (!path_exists(path)) return config;
  YamlMapping top(parse_yaml(read_file(path, 1u << 20), path), true);
  YamlMapping local(top.find("local"), true);
  local.read("policy", config.policy);
  const YamlNode options = local.find("options");
  YamlMapping values(options, true);
  for (const std::string& name : values.keys()) {
    config.options[name] = values.find(name).number();
  }
  if (const YamlNode slots = local.find("slots"); slots.present()) config.slots = read_slots(slots);
  local.read("interval", config.interval_s, between(1, 86400));
  local.finish();
  try {
    make_policy(config.policy, config.options);
  } catch (const Error& error) {
    local.node().refuse(error.what());
  }
  return config;
}

}  // namespace adaptdl::local
