#pragma once

// Reading tar files of unknown origin, by libarchive: plain, or compressed by gzip or zstd.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/oci/tar.h"

namespace adaptdl::oci {

// The archive's next bytes, valid until the next call; empty at its end. What it throws leaves
// untar().
using TarSource = std::function<std::string_view()>;

// The bytes of a file that is open for reading; `what` names it in an Error.
TarSource read_descriptor(int fd, const std::string& what);

struct UntarOptions {
  // The names at the top of the archive that are expected, and what they become here; others are
  // refused. Empty: any, as they are.
  std::map<std::string, std::string> names = {};
  // Symbolic links are made whatever they lead to. For a folder that nobody but untar() walks.
  bool any_links = false;
  // Told of each thing that is there now: its path below the folder; of a file, where it is.
  std::function<void(const TarEntry&)> placed = {};
};

struct UntarResult {
  int64_t files = 0;                 // and links
  uint64_t bytes = 0;                // of files
  std::vector<std::string> skipped;  // one sentence each
};

// Unpacks into a folder that exists. Permissions (without set-user-ID and the like) and times are
// kept; owners are not. A file appears whole, or not at all; one that is there is replaced.
//
// Nothing outside of the folder is written or linked to, whatever the archive holds and whatever
// links are in the folder: an absolute name, one with "..", and a way through a symbolic link are
// an Error. Links that lead out (see leads_out), devices and the like are skipped. Throws Error for
// what is no tar file, or is cut short; what came before stays.
UntarResult untar(const TarSource& source, const std::string& folder,
                  const UntarOptions& options = {});

// Whether a symbolic link may lead out of a tree, if it lies in a folder `depth` levels below the
// tree's top. Beyond absolute ones and those with too many "..", that counts every one with ".."
// behind a name, which may be a link itself.
bool leads_out(std::string_view target, size_t depth);

}  // namespace adaptdl::oci
