#include "core/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace adaptdl {

void fail_errno(int error_number, const std::string& what) {
  throw Error(what + ": " + std::generic_category().message(error_number));
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "adaptdl: broken invariant at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace adaptdl
