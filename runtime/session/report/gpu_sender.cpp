#include "runtime/session/report/gpu_sender.h"

#include <optional>
#include <pthread.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/nvml.h"
#include "core/formats/json_or_null.h"

namespace adaptdl {

GpuSender::GpuSender(std::string id, Send send, const char* library, Seconds interval)
    : id_(std::move(id)), send_(std::move(send)), thread_([this, library, interval] {
        pthread_setname_np(pthread_self(), "gpu");
        try {
          watch(library, interval);
        } catch (const Error& error) {
          log_debug("what this GPU does is not told: {}", error.what());
        }
      }) {}

GpuSender::~GpuSender() {
  over_.cancel();
  thread_.join();
}

void GpuSender::watch(const char* library, Seconds interval) const {
  const Nvml nvml(library);
  const std::optional<size_t> index = nvml.find(id_);
  if (!index) fail("{} does not know {}", library, id_);
  const Gpu& gpu = nvml.gpus()[*index];
  while (!over_.wait_for(interval)) {
    const GpuLoad load = nvml.load(*index);
    send_({{"type", "gpu"},
           {"id", gpu.uuid},
           {"name", gpu.name},
           {"busy_percent", or_null(load.busy_percent)},
           {"memory_bytes", gpu.memory_bytes},
           {"memory_used_bytes", or_null(load.memory_used_bytes)},
           {"temperature_c", or_null(load.temperature_c)},
           {"power_w", or_null(load.power_w)}});
  }
}

}  // namespace adaptdl
