#pragma once

// What COPY and ADD put where, in an image whose layers are not read.

#include <set>
#include <string>
#include <vector>

#include "core/oci/context.h"
#include "core/oci/image.h"
#include "core/oci/tar.h"

namespace adaptdl::oci {

// What does all that is refused here; the end of messages.
inline constexpr const char* kInstead = "install docker, podman or buildctl";

// What is known of an image's folders: those that its base has by its settings (working directory,
// PATH, HOME) or by custom, and those that a build makes. A value; paths are absolute.
class KnownFolders {
 public:
  KnownFolders() = default;
  explicit KnownFolders(const Image& base);

  // Makes the folder known, with those above it.
  void add(const std::string& folder);
  bool contains(const std::string& folder) const { return folders_.contains(folder); }
  // Whether the base has it, with an owner and a mode that are not known.
  bool base_has(const std::string& folder) const { return of_base_.contains(folder); }
  // Whether all is known, since the base is empty.
  bool from_nothing() const { return from_nothing_; }

 private:
  std::set<std::string> folders_, of_base_;
  bool from_nothing_ = false;
};

struct CopyRequest {
  std::vector<std::string> sources;  // in the context, with wildcards
  std::string place;                 // absolute
  bool into = false;                 // the place is written as a folder: "x/", ".", "x/."
  bool unpacks = false;              // ADD: tar files, by name, are unpacked
  std::string unpacked;              // for that: where folders are made, "UNPACKED-NUMBER"
};

// The entries, and makes their folders known. Throws Error for sources that are not in the context,
// places that most images have as links, and a file's place that may be a folder of the base, which
// it would replace.
std::vector<TarEntry> copied_entries(const CopyRequest& request, const BuildContext& context,
                                     KnownFolders& folders);

// The context's file as it is in an image, at `place`. It has one mode for all who build it,
// whatever their umask: read by all, written by the owner, executed if the owner may.
TarEntry entry_of(const BuildContext& context, const ContextFile& file, const std::string& place);

}  // namespace adaptdl::oci
