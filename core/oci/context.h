#pragma once

// The files that a build may copy: a folder without what .dockerignore excludes.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/ignore_rules.h"

namespace adaptdl::oci {

// Rules in docker's syntax. Differences to gitignore(5): a rule matches the whole path from the
// folder, the last rule that matches a path or a folder above it decides, and "!" also re-includes
// paths within ignored folders. Immutable.
class DockerIgnore {
 public:
  explicit DockerIgnore(std::string_view text = "");

  // `path` is relative, as IgnoreRules has it.
  bool ignored(std::string_view path) const;
  // Whether no rule can re-include a path below an ignored folder.
  bool final_for_folders() const { return !negates_; }

 private:
  struct Rule {
    bool negated;
    IgnoreRules pattern;
  };
  std::vector<Rule> rules_;
  bool negates_ = false;
};

struct ContextFile {
  enum class Kind { file, folder, link };
  std::string path;  // relative to the folder
  Kind kind = Kind::file;
  std::string target;  // of a link
  unsigned mode = 0;   // permissions
};

// Whether an additional rule excludes the path.
using LeftOut = std::function<bool(const std::string& path, bool is_folder)>;

struct BuildContext {
  std::string folder;
  std::vector<ContextFile> files;     // folders before what is in them, sorted
  std::vector<std::string> warnings;  // sentences: sockets and similar files are skipped
};

// Reads the folder without what DOCKERFILE.dockerignore excludes, if that file exists, or else
// .dockerignore in the folder. The files `without`, by device and inode, are left out as well:
// those that the build writes. Does not follow symlinks. Throws Error for an unreadable file or
// folder.
BuildContext read_context(const std::string& folder, const LeftOut& left_out = {},
                          const std::string& dockerfile = "",
                          const std::vector<std::string>& without = {});

// The target of a path in the context after following all symlinks in it, as if the folder were the
// root: "" is the folder itself. The target may not exist. Throws Error for a loop of symlinks.
std::string follow_links(const BuildContext& context, const std::string& path);

}  // namespace adaptdl::oci
