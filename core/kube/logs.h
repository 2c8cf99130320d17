#pragma once

// What containers write.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/kube/client.h"

namespace adaptdl::kube {

struct LogOptions {
  std::string container;           // "": the pod's only one
  bool follow = false;             // until the container has ended, through lost connections
  bool previous = false;           // of the run before the last restart
  bool timestamps = false;         // each line begins with its time and a space
  std::optional<int64_t> tail;     // only the last lines, >= 0
  std::optional<int64_t> since_s;  // not older than that many seconds, >= 1
};

// Calls `on_line` for each line, without its end. Following, it waits for a container that has not
// begun; not following, that is an ApiError. A line is told once, though lines of the very same
// nanosecond may be lost where a connection was. Throws ApiError, HttpError, Cancelled; following,
// lost connections and answers 429 and 5xx only when minutes of them bring nothing.
void logs(Client& client, const Resource& pod, const LogOptions& options,
          const std::function<void(std::string_view)>& on_line,
          const Cancellation* cancel = nullptr);

}  // namespace adaptdl::kube
