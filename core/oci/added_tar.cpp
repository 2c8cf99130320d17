#include "core/oci/added_tar.h"

#include <algorithm>
#include <array>
#include <fcntl.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/oci/untar.h"

namespace adaptdl::oci {

bool is_tar_name(const std::string& path) {
  constexpr std::array kEnds = {".tar", ".tgz",     ".tar.gz", ".tar.xz",
                                ".txz", ".tar.bz2", ".tbz2",   ".tar.zst"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [&](const char* end) { return path.ends_with(end); });
}

std::vector<TarEntry> unpack_tar(const std::string& archive, const std::string& folder,
                                 const std::string& place) {
  make_directories(folder, 0700);
  std::vector<TarEntry> entries;
  UntarOptions options;
  options.any_links = true;  // they are resolved inside the image
  options.placed = [&](const TarEntry& entry) {
    entries.push_back(entry);
    entries.back().path = join_path(place, entry.path);
  };
  const Fd file = open_file(archive, O_RDONLY | O_NONBLOCK);
  const UntarResult result = untar(read_descriptor(file.get(), archive), folder, options);
  if (!result.skipped.empty()) fail("unsupported entry {}", result.skipped[0]);
  return entries;
}

}  // namespace adaptdl::oci
