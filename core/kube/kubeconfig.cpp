#include "core/kube/kubeconfig.h"

#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::kube {
namespace {

// Enough for a hundred clusters with their certificates.
constexpr YamlLimits kLimits{.max_bytes = 16u << 20, .max_nodes = 200'000, .max_depth = 64};

void add_entries(std::vector<KubeconfigEntry>& entries, const YamlNode& root, std::string_view list,
                 std::string_view member, const std::string& folder) {
  for (const YamlNode& item : items_at(root, list)) {
    const std::string name = node_text(item, "name");
    const bool known =
        std::any_of(entries.begin(), entries.end(),
                    [&](const KubeconfigEntry& entry) { return entry.name == name; });
    if (!known) entries.push_back({name, node_at(item, member), folder});
  }
}

}  // namespace

void Kubeconfig::merge(std::string_view text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file, {}, kLimits);
  if (!root.is_mapping()) {
    root.refuse("is not a kubeconfig: it must be a mapping of keys to values");
  }
  const std::string folder = parent_directory(absolute_path(file));
  if (current_context.empty()) current_context = node_text(root, "current-context");
  add_entries(clusters, root, "clusters", "cluster", folder);
  add_entries(users, root, "users", "user", folder);
  add_entries(contexts, root, "contexts", "context", folder);
  files.push_back(file);
}

std::string Kubeconfig::source() const {
  return fmt::format("{}", fmt::join(files, ", "));
}

const KubeconfigEntry& Kubeconfig::find(const std::vector<KubeconfigEntry>& among,
                                        const std::string& name, std::string_view kind) const {
  std::vector<std::string> names;
  for (const KubeconfigEntry& entry : among) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  if (names.empty()) fail("{}: {} {} not found; none is defined", source(), kind, name);
  fail("{}: {} {} not found; available: {}", source(), kind, name, fmt::join(names, ", "));
}

YamlNode node_at(const YamlNode& mapping, std::string_view key) {
  return YamlMapping(mapping, true).find(key);
}

std::string node_text(const YamlNode& mapping, std::string_view key) {
  const YamlNode node = node_at(mapping, key);
  if (!node.present()) return "";
  if (node.is_list() || node.is_mapping()) return node.text();  // throws Error
  return node.is_scalar() ? node.text() : "";
}

bool flag_at(const YamlNode& mapping, std::string_view key) {
  const YamlNode node = node_at(mapping, key);
  return node.present() && node.is_scalar() && node.boolean();
}

std::vector<YamlNode> items_at(const YamlNode& mapping, std::string_view key) {
  const YamlNode node = node_at(mapping, key);
  if (!node.present()) return {};
  if (!node.is_list() && !node.is_scalar() && !node.is_mapping()) return {};  // null
  return node.list();
}

}  // namespace adaptdl::kube
