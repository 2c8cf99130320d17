#pragma once

// Logs of containers.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/kube/client.h"

namespace adaptdl::kube {

struct LogOptions {
  std::string container;           // "": the pod's only one
  std::string uid;                 // of the pod, with `follow`; "": any
  bool follow = false;             // until the container has ended; reconnects
  bool previous = false;           // of the run before the last restart
  bool timestamps = false;         // each line begins with its time and a space
  std::optional<int64_t> tail;     // only the last lines, >= 0
  std::optional<int64_t> since_s;  // only lines of the last seconds, >= 1
};

// Calls `on_line` for each line, without its end. With `follow`, waits for a container that has not
// started; otherwise that is an ApiError. Each line is reported once; after a reconnect, lines with
// the same nanosecond may be lost. Following ends when the name has become another pod's, with
// another uid. Throws ApiError, HttpError, Cancelled. With `follow`, lost connections and answers
// 429 and 5xx are errors only after minutes without a new line.
void logs(Client& client, const Resource& pod, const LogOptions& options,
          const std::function<void(std::string_view)>& on_line,
          const Cancellation* cancel = nullptr);

}  // namespace adaptdl::kube
