#include "core/oci/tar.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

#include "core/base/files.h"

namespace adaptdl::oci {

namespace {

Fd open_readable(const std::string& path) {
  for (;;) {
    Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file) return file;
    if (is_gone(errno)) throw FileChanged(path + ": cannot open: not found", true);
    if (errno != EINTR) fail_errno(errno, path + ": cannot open");
  }
}

}  // namespace

bool is_gone(int error_number) {
  return error_number == ENOENT || error_number == ESTALE;
}

TarWriter::TarWriter(std::function<void(std::string_view)> sink)
    : sink_(std::move(sink)), archive_(archive_write_new(), archive_write_free) {
  ADAPTDL_CHECK(archive_ != nullptr);
  check(archive_write_set_format_pax_restricted(archive_.get()));
  check(archive_write_set_bytes_per_block(archive_.get(), 1 << 16));
  check(archive_write_set_bytes_in_last_block(archive_.get(), 1));
  check(archive_write_open(archive_.get(), this, nullptr, on_bytes, nullptr));
}

ssize_t TarWriter::on_bytes(archive*, void* self, const void* bytes, size_t size) {
  TarWriter& writer = *static_cast<TarWriter*>(self);
  try {
    writer.sink_({static_cast<const char*>(bytes), size});
    return static_cast<ssize_t>(size);
  } catch (...) {
    writer.thrown_ = std::current_exception();
    return -1;
  }
}

void TarWriter::check(int code) {
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (code != ARCHIVE_OK) fail("cannot write an archive: {}", archive_error_string(archive_.get()));
}

void TarWriter::add_header(archive_entry* header) {
  // A warning: the name is not text in the locale (always C), so it is written as bytes.
  const int code = archive_write_header(archive_.get(), header);
  check(code == ARCHIVE_WARN ? ARCHIVE_OK : code);
}

void TarWriter::add_data(std::string_view bytes) {
  while (!bytes.empty()) {
    const la_ssize_t taken = archive_write_data(archive_.get(), bytes.data(), bytes.size());
    check(taken > 0 ? ARCHIVE_OK : ARCHIVE_FATAL);
    bytes.remove_prefix(static_cast<size_t>(taken));
  }
}

void TarWriter::add_file(archive_entry* header, const std::string& path) {
  const Fd file = open_readable(path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail_errno(errno, path + ": cannot read");
  if (!S_ISREG(status.st_mode)) fail("{}: is not a regular file", path);
  archive_entry_set_size(header, status.st_size);
  add_header(header);
  std::array<char, 1 << 16> piece;
  for (auto left = static_cast<uint64_t>(status.st_size); left > 0;) {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(left, piece.size()));
    const ssize_t size = ::read(file.get(), piece.data(), wanted);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0 || (size < 0 && is_gone(errno))) {
      throw FileChanged(path + ": became shorter while it was read; try again", false);
    }
    if (size < 0) fail_errno(errno, path + ": cannot read");
    add_data({piece.data(), static_cast<size_t>(size)});
    left -= static_cast<uint64_t>(size);
  }
}

void TarWriter::add(const TarEntry& entry, int64_t time) {
  const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> owner(archive_entry_new(),
                                                                            archive_entry_free);
  archive_entry* const header = owner.get();
  ADAPTDL_CHECK(header != nullptr);
  const bool is_folder = entry.kind == TarEntry::Kind::folder;
  archive_entry_copy_pathname(header, (is_folder ? entry.path + "/" : entry.path).c_str());
  archive_entry_set_mtime(header, time, 0);
  archive_entry_set_uid(header, entry.user);
  archive_entry_set_gid(header, entry.group);
  archive_entry_set_perm(header, entry.mode & 07777);
  archive_entry_set_filetype(header, AE_IFREG);
  switch (entry.kind) {
    case TarEntry::Kind::folder:
      archive_entry_set_filetype(header, AE_IFDIR);
      return add_header(header);
    case TarEntry::Kind::link:
      archive_entry_set_filetype(header, AE_IFLNK);
      archive_entry_set_perm(header, 0777);
      archive_entry_copy_symlink(header, entry.source.c_str());
      return add_header(header);
    case TarEntry::Kind::bytes:
      archive_entry_set_size(header, static_cast<la_int64_t>(entry.source.size()));
      add_header(header);
      return add_data(entry.source);
    case TarEntry::Kind::file:
      return add_file(header, entry.source);
  }
}

void TarWriter::close() {
  check(archive_write_close(archive_.get()));
}

}  // namespace adaptdl::oci
