#pragma once

// One layer of an image, made of files: the same entries give the same bytes, wherever and whenever
// they are written. Owned by root, all of one time, sorted, gzip without a time of its own.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/oci/tar.h"

namespace adaptdl::oci {

struct LayerOptions {
  int64_t time = 0;  // of every entry, seconds since 1970
  int level = 3;     // of gzip, 1 (fast) to 9 (small)
  // Hears how many bytes of the tar have been packed.
  std::function<void(uint64_t)> progress = {};
};

// A layer that lies in a file here.
struct LayerFile {
  std::string path;     // of the compressed tar
  std::string diff_id;  // digest of the tar
  std::string digest;   // of the file
  uint64_t size = 0;    // of the file, bytes
};

// $SOURCE_DATE_EPOCH, else 0: what LayerOptions::time should be. Throws Error if it is no number.
int64_t source_date_epoch();

// Writes the layer to `file`, replacing it. Folders above an entry are not written, unless they are
// entries themselves: what the image has there stays as it is. Of several entries for one path the
// last counts. Throws Error for a path that is not sound or holds a name ".wh.*", which would
// remove files of the layers below; for an entry below another that is no folder; and for a file
// that cannot be read or changes meanwhile.
LayerFile write_layer(std::vector<TarEntry> entries, const std::string& file,
                      const LayerOptions& options = {});

// The path without slashes at its ends. Throws Error as write_layer does.
std::string checked_layer_path(const std::string& path);

}  // namespace adaptdl::oci
