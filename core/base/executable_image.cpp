#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"

namespace adaptdl {

namespace {

// -1 with errno if the kernel does not create an executable memfd.
int executable_memfd(const std::string& name) {
  constexpr unsigned kExecutable = 0x10;  // MFD_EXEC, Linux 6.3; before, all were executable
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(name.c_str(), kFlags | kExecutable);
  return fd < 0 && errno == EINVAL ? memfd_create(name.c_str(), kFlags) : fd;
}

}  // namespace

ExecutableImage::ExecutableImage(std::span<const std::byte> program, const std::string& name,
                                 const std::string& cache_folder)
    : name_(name), cache_folder_(cache_folder) {
  const std::string_view text(reinterpret_cast<const char*>(program.data()), program.size());
  fd_ = Fd(executable_memfd(name));
  if (!fd_) {
    store(text);
    return;
  }
  write_all(fd_.get(), text, name);
  if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) !=
      0) {
    fail_errno(errno, name + ": cannot seal a program in memory");
  }
  in_memory_ = true;
}

std::string ExecutableImage::contents() const {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) fail_errno(errno, name_ + ": cannot read");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  read_exactly_at(fd_.get(), std::as_writable_bytes(std::span(text)), 0, name_);
  return text;
}

void ExecutableImage::move_to_file() {
  if (in_memory_) store(contents());
}

void ExecutableImage::store(std::string_view program) {
  const Sha256Digest whole = sha256(bytes_of(program));
  const std::string digest = to_hex(std::span(whole).first(8));
  const std::string path = join_path(cache_folder_, name_ + "-" + digest);
  in_memory_ = false;
  make_directories(cache_folder_, 0700);
  // Reuse an earlier run's file if it is ours and has the same bytes; check the descriptor that
  // will be executed.
  for (const bool fresh : {false, true}) {
    if (fresh) {
      write_file_atomic(path, program, 0700);
    } else if (!path_exists(path)) {
      continue;
    }
    fd_ = open_file(path, O_RDONLY | O_NOFOLLOW);
    struct stat info {};
    if (fstat(fd_.get(), &info) != 0) fail_errno(errno, path);
    const bool ours = S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
                      (info.st_mode & 0777) == 0700 &&
                      static_cast<size_t>(info.st_size) == program.size();
    if (ours && contents() == program) return;
  }
  fail("{}: cannot store the program there: another user seems to modify the file", path);
}

}  // namespace adaptdl
