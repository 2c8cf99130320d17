// A library for LD_PRELOAD: records what a program does to the files below POWER_FOLDER, in the log
// POWER_LOG, and fails the calls that POWER_CONTROL names. It stands in for the functions of the C
// library that this project, SQLite, libstdc++ and LibTorch call, under all their names.

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <type_traits>
#include <unistd.h>

#include "tests/power/log.h"
#include "tests/power/recorded.h"

using power::call;
using power::Control;
using power::fails;
using power::inode_of;
using power::log_path;
using power::Op;
using power::Place;
using power::Record;
using power::record;
using power::recorded;

namespace {

// ---- what the functions below share

template <typename Act>
long open_at(int at, const char* path, int flags, const Act& act) {
  const bool writes = (flags & (O_CREAT | O_TRUNC)) != 0 && (flags & O_TMPFILE) != O_TMPFILE;
  if (!writes || !recorded()) return act();
  const power::Turn turn(log_path());
  const Place before(at, path);
  if (!before) return act();
  if (fails(Control::kOpen)) return -1;
  const long result = act();
  if (result < 0) return result;
  const Place after(at, path);
  if (before.inode == 0) {
    record(turn, {.op = Op::create,
                  .inode = after.inode,
                  .folder = after.folder,
                  .name = after.name,
                  .text = ""});
  } else if ((flags & O_TRUNC) != 0) {
    record(turn, {.op = Op::truncate, .inode = after.inode, .name = "", .text = ""});
  }
  return result;
}

int open_file(int at, const char* path, int flags, mode_t mode) {
  return static_cast<int>(
      open_at(at, path, flags, [&] { return call(SYS_openat, at, path, flags, mode); }));
}

// `at`: where the bytes went; -1: to the position before the file's present one.
template <typename Act>
ssize_t write_to(int fd, off_t at, const iovec* parts, int count, const Act& act) {
  if (!recorded() || inode_of(fd) == 0) return act();
  const power::Turn turn(log_path());
  const uint64_t inode = inode_of(fd);
  if (fails(Control::kWrite)) return -1;
  const ssize_t done = act();
  if (done <= 0) return done;
  Record what{.op = Op::write, .inode = inode, .name = "", .text = ""};
  what.number = at >= 0 ? at : call(SYS_lseek, fd, 0, SEEK_CUR) - done;
  for (int i = 0; i < count; ++i) {
    const auto* bytes = static_cast<const char*>(parts[i].iov_base);
    what.text.append(bytes,
                     std::min(parts[i].iov_len, static_cast<size_t>(done) - what.text.size()));
  }
  record(turn, what);
  return done;
}

template <typename Act>
long on_file(int fd, uint32_t kind, Op op, int64_t number, const Act& act) {
  if (!recorded() || inode_of(fd) == 0) return act();
  const power::Turn turn(log_path());
  const uint64_t inode = inode_of(fd);
  if (fails(kind)) return -1;
  const long result = act();
  if (result == 0) {
    record(turn, {.op = op, .inode = inode, .number = number, .name = "", .text = ""});
  }
  return result;
}

int remove_at(int at, const char* path, int flags) {
  const auto act = [&] { return static_cast<int>(call(SYS_unlinkat, at, path, flags)); };
  if (!recorded()) return act();
  const power::Turn turn(log_path());
  const Place place(at, path);
  if (place && place.inode != 0 && fails(Control::kRemove)) return -1;
  const int result = act();
  if (result == 0 && place) {
    record(turn, {.op = Op::remove,
                  .inode = place.inode,
                  .folder = place.folder,
                  .name = place.name,
                  .text = ""});
  }
  return result;
}

int rename_at(int at, const char* from, int to_at, const char* to, unsigned flags) {
  const auto act = [&] {
    return static_cast<int>(call(SYS_renameat2, at, from, to_at, to, flags));
  };
  if (!recorded()) return act();
  const power::Turn turn(log_path());
  const Place source(at, from), target(to_at, to);
  // As on NFS.
  static const bool no_exchange = std::getenv("POWER_NO_EXCHANGE") != nullptr;
  if (flags == RENAME_EXCHANGE && no_exchange) {
    errno = EINVAL;
    return -1;
  }
  if ((source || target) && fails(Control::kRename)) return -1;
  const int result = act();
  if (result != 0 || (!source && !target)) return result;
  record(turn, {.op = Op::rename,
                .inode = source.inode,
                .folder = source.folder,
                .folder2 = target.folder,
                .number = flags,
                .name = source.name,
                .text = target.name});
  return result;
}

template <typename Act>
int make_at(int at, const char* path, Op op, const char* text, const Act& act) {
  if (!recorded()) return act();
  const power::Turn turn(log_path());
  const Place before(at, path);
  if (before && fails(Control::kFolder)) return -1;
  const int result = act();
  if (result == 0 && before) {
    const Place after(at, path);
    record(
        turn,
        {.op = op, .inode = after.inode, .folder = after.folder, .name = after.name, .text = text});
  }
  return result;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  void* const result =
      reinterpret_cast<void*>(call(SYS_mmap, address, length, protection, flags, fd, offset));
  const bool shared = (flags & MAP_TYPE) != MAP_PRIVATE && (protection & PROT_WRITE) != 0;
  if (fd >= 0 && shared && result != MAP_FAILED && recorded() && inode_of(fd) != 0) {
    const power::Turn turn(log_path());
    record(turn, {.op = Op::map, .inode = inode_of(fd), .name = "", .text = ""});
  }
  return result;
}

// fopen() opens by itself; what is written then goes through write() in libstdc++.
FILE* open_stream(const char* path, const char* mode, const char* function) {
  const auto act = [&] {
    FILE* const file = next<FILE*(const char*, const char*)>(function)(path, mode);
    return reinterpret_cast<long>(file);
  };
  int flags = 0;
  if (std::strchr("wa", mode[0]) != nullptr) flags = O_CREAT | (mode[0] == 'w' ? O_TRUNC : 0);
  const long result = open_at(AT_FDCWD, path, flags, [&] {
    const long file = act();
    return file == 0 ? -1 : file;
  });
  return result == -1 ? nullptr : reinterpret_cast<FILE*>(result);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// The names are given to the assembler, because the headers declare some with other attributes.
#define STANDS_FOR(function) __asm__(#function) __attribute__((visibility("default")))
#define OPENS(mine, function)                                      \
  extern "C" int mine(const char*, int, ...) STANDS_FOR(function); \
  int mine(const char* path, int flags, ...) {                     \
    va_list arguments;                                             \
    va_start(arguments, flags);                                    \
    const mode_t mode = mode_of(flags, arguments);                 \
    va_end(arguments);                                             \
    return open_file(AT_FDCWD, path, flags, mode);                 \
  }
#define OPENS_AT(mine, function)                                        \
  extern "C" int mine(int, const char*, int, ...) STANDS_FOR(function); \
  int mine(int at, const char* path, int flags, ...) {                  \
    va_list arguments;                                                  \
    va_start(arguments, flags);                                         \
    const mode_t mode = mode_of(flags, arguments);                      \
    va_end(arguments);                                                  \
    return open_file(at, path, flags, mode);                            \
  }
// STAND(result, name, (parameters)) { body }
#define STAND(result, function, parameters)                        \
  extern "C" result my_##function parameters STANDS_FOR(function); \
  result my_##function parameters

OPENS(my_open, open)
OPENS(my_open64, open64)
OPENS(my_open_2, __open_2)
OPENS(my_open64_2, __open64_2)
OPENS_AT(my_openat, openat)
OPENS_AT(my_openat64, openat64)
OPENS_AT(my_openat_2, __openat_2)
OPENS_AT(my_openat64_2, __openat64_2)

STAND(int, creat, (const char* path, mode_t mode)) {
  return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
STAND(int, creat64, (const char* path, mode_t mode)) {
  return my_creat(path, mode);
}
STAND(FILE*, fopen, (const char* path, const char* mode)) {
  return open_stream(path, mode, "fopen");
}
STAND(FILE*, fopen64, (const char* path, const char* mode)) {
  return open_stream(path, mode, "fopen64");
}

STAND(ssize_t, write, (int fd, const void* bytes, size_t size)) {
  const iovec part = {const_cast<void*>(bytes), size};
  return write_to(fd, -1, &part, 1, [&] { return call(SYS_write, fd, bytes, size); });
}
STAND(ssize_t, writev, (int fd, const iovec* parts, int count)) {
  return write_to(fd, -1, parts, count, [&] { return call(SYS_writev, fd, parts, count); });
}
STAND(ssize_t, pwrite, (int fd, const void* bytes, size_t size, off_t at)) {
  const iovec part = {const_cast<void*>(bytes), size};
  return write_to(fd, at, &part, 1, [&] { return call(SYS_pwrite64, fd, bytes, size, at); });
}
STAND(ssize_t, pwrite64, (int fd, const void* bytes, size_t size, off_t at)) {
  return my_pwrite(fd, bytes, size, at);
}
STAND(ssize_t, pwritev, (int fd, const iovec* parts, int count, off_t at)) {
  return write_to(fd, at, parts, count,
                  [&] { return call(SYS_pwritev, fd, parts, count, at, 0L); });
}

// These move bytes that the recorder does not see: who calls them can do without.
STAND(ssize_t, copy_file_range,
      (int in, off64_t* from, int out, off64_t* to, size_t size, unsigned flags)) {
  if (inode_of(out) == 0) return call(SYS_copy_file_range, in, from, out, to, size, flags);
  errno = EXDEV;
  return -1;
}
STAND(ssize_t, sendfile, (int out, int in, off_t* from, size_t size)) {
  if (inode_of(out) == 0) return call(SYS_sendfile, out, in, from, size);
  errno = EINVAL;
  return -1;
}
STAND(ssize_t, sendfile64, (int out, int in, off_t* from, size_t size)) {
  return my_sendfile(out, in, from, size);
}
extern "C" int my_ioctl(int, unsigned long, ...) STANDS_FOR(ioctl);
int my_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if ((request != FICLONE && request != FICLONERANGE) || inode_of(fd) == 0) {
    return static_cast<int>(call(SYS_ioctl, fd, request, argument));
  }
  errno = EOPNOTSUPP;
  return -1;
}
STAND(int, fallocate, (int fd, int mode, off_t at, off_t size)) {
  if (inode_of(fd) == 0) return static_cast<int>(call(SYS_fallocate, fd, mode, at, size));
  errno = EOPNOTSUPP;
  return -1;
}
STAND(int, posix_fallocate, (int fd, off_t at, off_t size)) {
  if (inode_of(fd) != 0) return EOPNOTSUPP;
  return call(SYS_fallocate, fd, 0, at, size) == 0 ? 0 : errno;
}
STAND(int, posix_fallocate64, (int fd, off_t at, off_t size)) {
  return my_posix_fallocate(fd, at, size);
}
STAND(int, fallocate64, (int fd, int mode, off_t at, off_t size)) {
  return my_fallocate(fd, mode, at, size);
}

STAND(int, ftruncate, (int fd, off_t size)) {
  return static_cast<int>(on_file(fd, Control::kTruncate, Op::truncate, size,
                                  [&] { return call(SYS_ftruncate, fd, size); }));
}
STAND(int, ftruncate64, (int fd, off_t size)) {
  return my_ftruncate(fd, size);
}
STAND(int, fsync, (int fd)) {
  return static_cast<int>(
      on_file(fd, Control::kSync, Op::sync, 0, [&] { return call(SYS_fsync, fd); }));
}
STAND(int, fdatasync, (int fd)) {
  return static_cast<int>(
      on_file(fd, Control::kSync, Op::sync, 0, [&] { return call(SYS_fdatasync, fd); }));
}
STAND(int, syncfs, (int fd)) {
  return static_cast<int>(on_file(fd, Control::kSync, Op::sync_all, 0, [&] {
    // The test's own disk may be slow to sync as a whole, and need not: the log is what counts.
    return 0L;
  }));
}

STAND(int, close, (int fd)) {
  const auto act = [&] { return static_cast<int>(call(SYS_close, fd)); };
  if (!recorded() || inode_of(fd) == 0) return act();
  const long flags = call(SYS_fcntl, fd, F_GETFL, 0);
  const power::Turn turn(log_path());
  const bool failing = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fails(Control::kClose);
  const int error = errno;
  const int result = act();
  if (!failing) return result;
  errno = error;  // the descriptor is closed all the same
  return -1;
}

STAND(int, rename, (const char* from, const char* to)) {
  return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
STAND(int, renameat, (int at, const char* from, int to_at, const char* to)) {
  return rename_at(at, from, to_at, to, 0);
}
STAND(int, renameat2, (int at, const char* from, int to_at, const char* to, unsigned flags)) {
  return rename_at(at, from, to_at, to, flags);
}
STAND(int, unlink, (const char* path)) {
  return remove_at(AT_FDCWD, path, 0);
}
STAND(int, unlinkat, (int at, const char* path, int flags)) {
  return remove_at(at, path, flags);
}
STAND(int, rmdir, (const char* path)) {
  return remove_at(AT_FDCWD, path, AT_REMOVEDIR);
}
STAND(int, remove, (const char* path)) {
  const int result = remove_at(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? remove_at(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

STAND(int, mkdirat, (int at, const char* path, mode_t mode)) {
  return make_at(at, path, Op::make_folder, "",
                 [&] { return static_cast<int>(call(SYS_mkdirat, at, path, mode)); });
}
STAND(int, mkdir, (const char* path, mode_t mode)) {
  return my_mkdirat(AT_FDCWD, path, mode);
}
STAND(char*, mkdtemp, (char* name)) {
  static uint64_t number = 0;
  const size_t size = std::strlen(name);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    uint64_t value = (static_cast<uint64_t>(now.tv_nsec) + ++number) * 0x9E3779B97F4A7C15u;
    for (size_t i = size - 6; i < size; ++i, value /= 26) {
      name[i] = static_cast<char>('a' + value % 26);
    }
    if (my_mkdirat(AT_FDCWD, name, 0700) == 0) return name;
    if (errno != EEXIST) return nullptr;
  }
  return nullptr;
}
STAND(int, symlinkat, (const char* target, int at, const char* path)) {
  return make_at(at, path, Op::make_symlink, target,
                 [&] { return static_cast<int>(call(SYS_symlinkat, target, at, path)); });
}
STAND(int, symlink, (const char* target, const char* path)) {
  return my_symlinkat(target, AT_FDCWD, path);
}
STAND(int, linkat, (int at, const char* from, int to_at, const char* to, int flags)) {
  return make_at(to_at, to, Op::link, "",
                 [&] { return static_cast<int>(call(SYS_linkat, at, from, to_at, to, flags)); });
}
STAND(int, link, (const char* from, const char* to)) {
  return my_linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

STAND(void*, mmap, (void* address, size_t size, int protection, int flags, int fd, off_t at)) {
  return map(address, size, protection, flags, fd, at);
}
STAND(void*, mmap64, (void* address, size_t size, int protection, int flags, int fd, off_t at)) {
  return map(address, size, protection, flags, fd, at);
}
