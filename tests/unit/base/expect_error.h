#pragma once

#include <doctest/doctest.h>
#include <string>

#include "core/base/error.h"

namespace adaptdl {

// The message of the Error that `action` throws; "" (a failed check) if it throws none.
template <typename F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  FAIL_CHECK("no Error was thrown");
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace adaptdl

#define CHECK_ERROR(expression, part)                                      \
  do {                                                                     \
    const std::string message_ = ::adaptdl::error_of([&] { expression; }); \
    CAPTURE(message_);                                                     \
    CHECK(::adaptdl::contains(message_, part));                            \
  } while (false)
