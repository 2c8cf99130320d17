#pragma once

// Writes tar files with libarchive: pax format, names as bytes in any locale.

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

// Whether the error means that a path no longer exists; on network file systems also ESTALE.
bool is_gone(int error_number);

// One entry of an archive.
struct TarEntry {
  enum class Kind { file, bytes, folder, link };
  std::string path;  // relative, without slashes at its ends
  Kind kind = Kind::file;
  std::string source;  // file: the local path; bytes: the content; link: the target
  mode_t mode = 0644;  // permissions; a link's are ignored
  uint32_t user = 0, group = 0;
};

// A file does not exist (`went`), or became shorter while it was read. More entries may be added
// afterwards: the archive omits a missing file, and fills a shortened one with zeros.
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
  // `sink` is called with each piece of the archive; its exceptions leave add() or close().
  explicit TarWriter(std::function<void(std::string_view)> sink);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // `time`: seconds since 1970. Throws FileChanged, and Error for a file that is unreadable or not
  // a regular file.
  void add(const TarEntry& entry, int64_t time);
  // Ends the archive; add nothing after it.
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
