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

// The archive's next bytes, valid until the next call; empty at its end. Its exceptions leave
// untar().
using TarSource = std::function<std::string_view()>;

// Reads an open file; `what` names it in an Error.
TarSource read_descriptor(int fd, const std::string& what);

struct UntarOptions {
  // The expected top-level names of the archive and their local names; other names are an Error.
  // Empty: any name, unchanged.
  std::map<std::string, std::string> names = {};
  // Create symlinks with any target. For a folder that only untar() walks.
  bool any_links = false;
  // Called for each entry created: its path below the folder; for a file, its local path. With the
  // archive's owners, and with its modes, including set-user-ID and similar bits.
  std::function<void(const TarEntry&)> placed = {};
};

struct UntarResult {
  int64_t files = 0;                 // including links
  uint64_t bytes = 0;                // of files
  std::vector<std::string> skipped;  // one sentence each
};

// Unpacks into an existing folder. Keeps permissions (without set-user-ID and similar bits) and
// times, but not owners. A file appears completely or not at all; existing files are replaced.
//
// Never writes or links outside of the folder, whatever the archive contains and whatever symlinks
// are in the folder: an absolute name, a name with "..", and a path through a symlink are an Error.
// Links that lead out (see leads_out), devices and similar entries are skipped. Throws Error for an
// invalid or truncated archive; entries before the fault stay.
UntarResult untar(const TarSource& source, const std::string& folder,
                  const UntarOptions& options = {});

// Whether a symlink in a folder `depth` levels below the top of a tree may lead out of that tree.
// True for absolute targets, for targets with too many "..", and for every target with ".." after a
// name, because that name may be a symlink itself.
bool leads_out(std::string_view target, size_t depth);

}  // namespace adaptdl::oci
