#pragma once

// The files that a build may copy from: a folder, less what .dockerignore leaves out.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/ignore_rules.h"

namespace adaptdl::oci {

// Rules in docker's form: like gitignore(5), but each is for the whole path from the folder, the
// last one that names a path or a folder above it decides, and "!" takes back from within folders,
// too. Immutable.
class DockerIgnore {
 public:
  explicit DockerIgnore(std::string_view text = "");

  // `path` is relative, as IgnoreRules has it.
  bool ignored(std::string_view path) const;
  // Whether nothing below an ignored folder can be taken back.
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

// Whether a further rule leaves the path out.
using LeftOut = std::function<bool(const std::string& path, bool is_folder)>;

struct BuildContext {
  std::string folder;
  std::vector<ContextFile> files;     // folders before what is in them, sorted
  std::vector<std::string> warnings;  // sentences: sockets and the like are passed over
};

// Reads the folder with its .dockerignore. Links are not followed. Throws Error for what cannot be
// read.
BuildContext read_context(const std::string& folder, const LeftOut& left_out = {});

// Where a path in the context leads when the links on its way and at its end are followed, as if
// the folder were the root: "" is the folder itself. There may be nothing. Throws Error for links
// that lead in a circle.
std::string follow_links(const BuildContext& context, const std::string& path);

}  // namespace adaptdl::oci
