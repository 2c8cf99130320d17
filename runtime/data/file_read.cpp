#include "runtime/data/file_read.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "runtime/data/guarded_read.h"
#include "runtime/data/watched_file.h"

namespace adaptdl::data {
namespace {

[[noreturn]] void fail_to_read(const std::string& path) {
  const int number = errno;
  if (number == ENOENT || number == ENOTDIR) {
    throw DataChanged(fmt::format("{}: was removed while the run uses it", path));
  }
  throw ReadFailed(fmt::format("{}: cannot read: {}", path, std::strerror(number)));
}

template <typename Read>
FileBytes repeated(const Read& read) {
  for (const double pause : kReadPauses) {
    try {
      return read();
    } catch (const ReadFailed&) {
      std::this_thread::sleep_for(Seconds(pause));
    }
  }
  return read();
}

struct OpenFile {
  Fd descriptor;
  struct stat status = {};

  explicit OpenFile(const std::string& path)
      : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!descriptor || ::fstat(descriptor.get(), &status) != 0) fail_to_read(path);
  }
};

FileBytes read_part(const OpenFile& file, const std::string& path, uint64_t offset, size_t size) {
  FileBytes bytes(size);
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::pread(file.descriptor.get(), bytes.data() + done, size - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_read(path);
    if (count == 0) {
      throw DataChanged(fmt::format("{}: became shorter while the run uses it", path));
    }
    done += static_cast<size_t>(count);
  }
  return bytes;
}

}  // namespace

FileBytes read_data_file(const std::string& path, size_t limit) {
  return repeated([&] {
    const OpenFile file(path);
    if (!S_ISREG(file.status.st_mode)) fail("{}: is not a file", path);
    const auto size = static_cast<size_t>(file.status.st_size);
    if (size > limit) {
      fail("{}: has {} bytes; a file of one sample may have {}", path, size, limit);
    }
    return read_part(file, path, 0, size);
  });
}

FileBytes read_data_part(const std::string& path, const struct stat& opened, uint64_t offset,
                         size_t size) {
  return repeated([&] {
    const OpenFile file(path);
    check_unchanged(path, opened, file.status);
    return read_part(file, path, offset, size);
  });
}

}  // namespace adaptdl::data
