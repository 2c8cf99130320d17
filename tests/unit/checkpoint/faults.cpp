#include "tests/unit/checkpoint/faults.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace {

bool no_exchange = false;
adaptdl::test::NoExchange::OnRename on_rename;

int rename_now(const char* from, const char* to, unsigned flags) {
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags));
}

}  // namespace

// In place of the C library's, for this program.
extern "C" {
int faulty_rename(const char* from, const char* to) noexcept __asm__("rename");
int faulty_renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept
    __asm__("renameat2");
}

int faulty_rename(const char* from, const char* to) noexcept {
  const int error = on_rename ? on_rename(from, to) : 0;
  if (error == 0) return rename_now(from, to, 0);
  errno = error;
  return -1;
}

int faulty_renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  if (!no_exchange) return rename_now(from, to, flags);
  errno = EINVAL;
  return -1;
}

namespace adaptdl::test {

NoExchange::NoExchange(OnRename on_rename) {
  no_exchange = true;
  ::on_rename = std::move(on_rename);
}

NoExchange::~NoExchange() {
  no_exchange = false;
  on_rename = nullptr;
}

bool without_privileges(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    bool good = ::syscall(SYS_capset, &header, none) == 0;
    try {
      good = good && body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      good = false;
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace adaptdl::test
