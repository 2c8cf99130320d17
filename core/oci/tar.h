#pragma once

// Writing tar files, by libarchive: pax, with names as bytes, whatever the locale.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

struct archive;
struct archive_entry;

namespace adaptdl::oci {

// Something in an archive.
struct TarEntry {
  enum class Kind { file, bytes, folder, link };
  std::string path;  // relative, without slashes at its ends
  Kind kind = Kind::file;
  std::string source;  // of a file: where it is here; of bytes: themselves; of a link: its target
  mode_t mode = 0644;  // permissions; a link's are ignored
  uint32_t user = 0, group = 0;
};

// One thread.
class TarWriter {
 public:
  // `sink` gets the archive piece by piece; what it throws leaves add() or close().
  explicit TarWriter(std::function<void(std::string_view)> sink);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // `time`: seconds since 1970. Throws Error for a file that cannot be read, is no regular one, or
  // becomes shorter meanwhile.
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
