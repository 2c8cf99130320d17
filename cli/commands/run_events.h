#pragma once

// What commands that start a run print of it.

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/formats/json.h"

namespace adaptdl::cli {

// The event stream on standard output. If writing fails, training continues without it, and the
// command exits with 1, and with the reason unless the reader has closed the pipe. One thread
// calls event(); any calls broken().
class JsonStream {
 public:
  // Prints every `every`-th step only; 0: none.
  explicit JsonStream(int64_t every) : every_(every) {}

  void event(const Json& event);
  bool broken() const { return broken_; }

 private:
  bool is_thinned_out(const Json& event) const;

  const int64_t every_;
  std::atomic<bool> broken_{false};
};

// Prints what a run that has ended is to say. False, with the reason on standard error unless the
// reader has closed the pipe, if that fails: the run's own exit code matters more.
bool print_at_end(std::string_view text);

}  // namespace adaptdl::cli
