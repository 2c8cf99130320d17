#pragma once

// Internal to config.cpp: merged kubeconfig files.

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/yaml.h"

namespace adaptdl::kube {

// A named cluster, user or context, and the folder that its paths are relative to.
struct KubeconfigEntry {
  std::string name;
  YamlNode value;
  std::string folder;
};

struct Kubeconfig {
  std::string current_context;
  std::vector<KubeconfigEntry> clusters, users, contexts;
  std::vector<std::string> files;

  // Adds the entries of another file whose names are new. Throws Error "FILE:LINE: ..." if it is
  // not a kubeconfig. Entries are checked when they are used.
  void merge(std::string_view text, const std::string& file);

  bool empty() const { return clusters.empty() && users.empty() && contexts.empty(); }
  std::string source() const;  // for messages: the files' names

  // Throws an Error that lists the available names.
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
