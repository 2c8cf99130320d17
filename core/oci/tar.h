#pragma once

// Writing tar files, by libarchive: pax, with names as bytes, whatever the locale.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "core/base/error.h"

struct archive;
struct archive_entry;

namespace adaptdl::oci {

// Whether a path that was there is not any more; on the file system of a network also by ESTALE.
bool is_gone(int error_number);

// Something in an archive.
struct TarEntry {
  enum class Kind { file, bytes, folder, link };
  std::string path;  // relative, without slashes at its ends
  Kind kind = Kind::file;
  std::string source;  // of a file: where it is here; of bytes: themselves; of a link: its target
  mode_t mode = 0644;  // permissions; a link's are ignored
  uint32_t user = 0, group = 0;
};

// A file is not there, or became shorter while it was read. More may be added after it: the archive
// has nothing of the one, and zeros for what is missing of the other.
class FileChanged : public Error {
 public:
  FileChanged(const std::string& sentence, bool went) : Error(sentence), went_(went) {}
  bool went() const { return went_; }

 private:
  bool went_;
};

// One thread.
class TarWriter {
 public:
  // `sink` gets the archive piece by piece; what it throws leaves add() or close().
  explicit TarWriter(std::function<void(std::string_view)> sink);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // `time`: seconds since 1970. Throws FileChanged, and Error for a file that cannot be read or is
  // no regular one.
  void add(const TarEntry& entry, int64_t time);
  // Ends the archive; nothing is added after it.
  void close();

 private:
  static ssize_t on_bytes(archive*, void* self, const void* bytes, size_t size);
  void check(int code);
  void add_file(archive_entry* header, const std::string& path);
  void add_header(archive_entry* header);
  void add_data(std::string_view bytes);

  std::function<void(std::string_view)> sink_;
  std::exception_ptr thrown_;  // exceptions must not pass through C
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

}  // namespace adaptdl::oci
