#pragma once

// Inside config.cpp: kubeconfig files as they are, merged.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/yaml.h"

namespace adaptdl::kube {

// A named cluster, user or context, and the folder that paths in it start at.
struct KubeconfigEntry {
  std::string name;
  YamlNode value;
  std::string folder;
};

struct Kubeconfig {
  std::string current_context;
  std::vector<KubeconfigEntry> clusters, users, contexts;
  std::vector<std::string> files;

  // Takes from a further file what none before it has named. Throws Error "FILE:LINE: ..." for
  // what is no kubeconfig; what is in its entries is looked at when they are used.
  void merge(std::string_view text, const std::string& file);

  bool empty() const { return clusters.empty() && users.empty() && contexts.empty(); }
  std::string source() const;  // for messages: the files' names

  // Throws Error that lists what there is.
  const KubeconfigEntry& find(const std::vector<KubeconfigEntry>& among, const std::string& name,
                              std::string_view kind) const;
};

// The text at `key`, "" if there is none or it is null.
std::string node_text(const YamlNode& mapping, std::string_view key);
bool flag_at(const YamlNode& mapping, std::string_view key);
YamlNode node_at(const YamlNode& mapping, std::string_view key);
// The items at `key`; none if it is missing or null.
std::vector<YamlNode> items_at(const YamlNode& mapping, std::string_view key);

}  // namespace adaptdl::kube
