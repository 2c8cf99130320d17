#include "core/base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace adaptdl {

void fail_errno(int error_number, const std::string& what) {
  const std::string message = what + ": " + std::generic_category().message(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT) throw DiskFull(message);
  throw Error(message);
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "adaptdl: broken invariant at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace adaptdl
