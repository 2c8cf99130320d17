#pragma once

// Computes the entries of COPY and ADD, without reading the layers of the base image.

#include <set>
#include <string>
#include <vector>

#include "core/oci/context.h"
#include "core/oci/image.h"
#include "core/oci/tar.h"

namespace adaptdl::oci {

// The end of messages about unsupported instructions.
inline constexpr const char* kInstead = "install docker, podman or buildctl";

// The known folders of an image: those of the base by its settings (working directory, PATH, HOME)
// or by convention, and those that the build creates. A value; paths are absolute.
class KnownFolders {
 public:
  KnownFolders() = default;
  explicit KnownFolders(const Image& base);

  // Adds the folder and those above it.
  void add(const std::string& folder);
  bool contains(const std::string& folder) const { return folders_.contains(folder); }
  // Whether the base has it; its owner and mode are then unknown.
  bool base_has(const std::string& folder) const { return of_base_.contains(folder); }
  // Whether all folders are known, because the base is empty.
  bool from_nothing() const { return from_nothing_; }

 private:
  std::set<std::string> folders_, of_base_;
  bool from_nothing_ = false;
};

struct CopyRequest {
  std::vector<std::string> sources;  // in the context, with wildcards
  std::string place;                 // absolute
  bool into = false;                 // the destination is written as a folder: "x/", ".", "x/."
  bool unpacks = false;              // ADD: tar files, by name, are unpacked
  std::string unpacked;              // the prefix of folders for unpacking: "UNPACKED-NUMBER"
};

// Returns the entries and adds their folders to `folders`. Throws Error for sources outside of the
// context, destinations that are symlinks in most images, and a file destination that may be a
// folder of the base, which the file would replace.
std::vector<TarEntry> copied_entries(const CopyRequest& request, const BuildContext& context,
                                     KnownFolders& folders);

// The entry for the context's file at `place` in an image. The mode does not depend on the umask:
// readable by all, writable by the owner, executable by all if the owner may execute it.
TarEntry entry_of(const BuildContext& context, const ContextFile& file, const std::string& place);

}  // namespace adaptdl::oci
