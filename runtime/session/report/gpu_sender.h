#pragma once

// Tells the launcher how busy and warm the GPU of this replica is, and what it draws, by the
// driver's management library (core/base/nvml.h).

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "core/base/cancellation.h"
#include "core/base/clock.h"

namespace adaptdl {

class GpuSender {
 public:
  static constexpr Seconds kInterval{5};
  using Send = std::function<void(const nlohmann::json& message)>;

  // `id`: gpu_id(). Calls `send` on its own thread, with a message `gpu` (core/launch/io/
  // protocol.h), after each interval until its end. Never where there is no such library, or it
  // does not know this GPU.
  GpuSender(std::string id, Send send, const char* library = "libnvidia-ml.so.1",
            Seconds interval = kInterval);
  ~GpuSender();
  GpuSender(const GpuSender&) = delete;
  GpuSender& operator=(const GpuSender&) = delete;

 private:
  void watch(const char* library, Seconds interval) const;

  const std::string id_;
  const Send send_;
  Cancellation over_;
  std::thread thread_;
};

}  // namespace adaptdl
