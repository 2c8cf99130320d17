#pragma once

// What a program asks and tells the supervisor of AdaptDL's scheduler, over HTTP or HTTPS.

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "runtime/standalone/http_exchange.h"
#include "runtime/standalone/place.h"

namespace adaptdl::standalone {

// The host of rank 0. Blocks until the supervisor knows it, also while the supervisor is not
// reachable. Throws Error at the deadline, or if the supervisor refuses to answer.
std::string discover(const Place& place, TimePoint deadline);

// Sends scheduling hints from a thread of its own, the newest one, at this interval at most. A
// failure is a warning: training does not depend on hints.
class HintPoster {
 public:
  static constexpr std::chrono::seconds kInterval{30};

  // Throws Error for an invalid URL.
  explicit HintPoster(const Place& place);
  ~HintPoster();
  HintPoster(const HintPoster&) = delete;
  HintPoster& operator=(const HintPoster&) = delete;

  void post(const nlohmann::json& hints);  // any thread; does not block

 private:
  void run();

  const HttpBase base_;
  const std::string path_;
  Cancellation stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<nlohmann::json> newest_;
  std::thread thread_;
};

}  // namespace adaptdl::standalone
