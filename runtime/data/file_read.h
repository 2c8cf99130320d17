#pragma once

// Reads of data files that are opened for each read, because there are too many to keep. Failures
// of a disk or a network are repeated for some seconds. Without state, for any thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace adaptdl::data {

using FileBytes = std::vector<std::byte>;

// All of a file. Throws ReadFailed; DataChanged if it is not there or changes meanwhile; Error if
// it is larger than `limit` bytes or not a file.
FileBytes read_data_file(const std::string& path, size_t limit);

// `size` bytes from `offset` of a file that was like `opened` once. Throws ReadFailed; DataChanged
// if it is so no longer. Requires: the bytes were in the file.
FileBytes read_data_part(const std::string& path, const struct stat& opened, uint64_t offset,
                         size_t size);

}  // namespace adaptdl::data
