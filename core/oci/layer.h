#pragma once

// One layer of an image, made of files. The output is reproducible: entries are sorted, all have
// one time, and the gzip header has none.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/oci/tar.h"

namespace adaptdl::oci {

struct LayerOptions {
  int64_t time = 0;  // of every entry, seconds since 1970
  int level = 3;     // of gzip, 1 (fast) to 9 (small)
  // Called with the number of bytes of the tar packed so far.
  std::function<void(uint64_t)> progress = {};
};

// A layer in a local file.
struct LayerFile {
  std::string path;     // of the compressed tar
  std::string diff_id;  // digest of the tar
  std::string digest;   // of the file
  uint64_t size = 0;    // of the file, bytes
};

// $SOURCE_DATE_EPOCH, else 0: the value for LayerOptions::time. Throws Error if it is not a number.
int64_t source_date_epoch();

// Writes the layer to `file`, replacing it. Folders above an entry are not written, unless they are
// entries themselves, so that the image's own folders stay unchanged. Of several entries for one
// path the last counts. Throws Error for an invalid path or a name ".wh.*", which would remove
// files of lower layers; for an entry below another that is not a folder; and for a file that
// cannot be read or changes meanwhile.
LayerFile write_layer(std::vector<TarEntry> entries, const std::string& file,
                      const LayerOptions& options = {});

// The path without slashes at its ends. Throws Error as write_layer does.
std::string checked_layer_path(const std::string& path);

}  // namespace adaptdl::oci
