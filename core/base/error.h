#pragma once

// There are two families of failure:
//  - Error: expected (bad input, a missing file, a lost connection). Says what failed, where, and
//    what to do next. Carries the exit code the process should end with if nobody catches it.
//    Caught only at main, a request handler, a tick of a loop, or the root of a thread.
//  - a broken invariant: a bug. ADAPTDL_CHECK prints the location and aborts.

#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace adaptdl {

// Exit codes that scripts rely on (adaptdl(1), EXIT STATUS).
enum class ExitCode : int {
  ok = 0,
  error = 1,
  usage = 2,
  auth = 4,
  timeout = 124,
  interrupted = 130,  // SIGINT
  terminated = 143,   // SIGTERM after a checkpoint: a clean reschedule
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::error)
      : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

// The command line itself is wrong: exit 2, and a hint at --help.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, ExitCode::usage) {}
};

// The disk, or this user's share of it, is full: the same may succeed later.
class DiskFull : public Error {
 public:
  using Error::Error;
};

// fail("{}: cannot open: {}", path, reason) throws Error with the formatted sentence.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// As fail(), with ": " and the text of `error_number` (an errno) appended. Throws DiskFull if that
// is the reason.
[[noreturn]] void fail_errno(int error_number, const std::string& what);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace adaptdl

#define ADAPTDL_CHECK(condition) \
  ((condition) ? void(0) : ::adaptdl::check_failed(#condition, __FILE__, __LINE__))
