#pragma once

// Writing ZIP archives of uncompressed members (APPNOTE 6.3, always with ZIP64 fields), as
// torch.load reads them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace adaptdl {

// One thread. The archive is complete after finish().
class ZipWriter {
 public:
  // `write` gets the bytes of the archive in order; what it throws goes to the caller.
  explicit ZipWriter(std::function<void(std::string_view bytes)> write);

  // The content begins at a multiple of 64 bytes. Requires: a name of fewer than 65000 bytes.
  void add(const std::string& name, std::string_view content);
  void finish();

 private:
  void out(std::string_view bytes);

  const std::function<void(std::string_view)> write_;
  uint64_t written_ = 0, members_ = 0;
  std::string directory_;
};

}  // namespace adaptdl
