// A library for LD_PRELOAD: makes steps last, as an accelerator would, without a core's work.
// Opening /pace/N sleeps N ms and gives a file of one zero, float32, which a TorchScript program
// can read (torch.from_file); TorchScript itself has no way to sleep.

#undef _FILE_OFFSET_BITS  // open and open64 are two names here

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr char kFolder[] = "/pace/";

int pause_for(long milliseconds) {
  timespec left{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  const int file = memfd_create("pace", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, sizeof(float)) != 0) {
    close(file);
    return -1;
  }
  return file;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  if (std::strncmp(path, kFolder, std::strlen(kFolder)) == 0) {
    return pause_for(std::atol(path + std::strlen(kFolder)));
  }
  using Open = int (*)(const char*, int, ...);
  return reinterpret_cast<Open>(dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}

// On machines of 64 bits they are the same.
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

}  // extern "C"
