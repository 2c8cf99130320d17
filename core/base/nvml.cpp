#include "core/base/nvml.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <string_view>

#include "core/base/error.h"

namespace adaptdl {

namespace {

// The part of its C interface that is used here; version 1 of each structure.
using Device = void*;
constexpr int kSuccess = 0;
constexpr int kCoreTemperature = 0;
constexpr int kNvlink = 2;  // of what two GPUs may have in common
constexpr int kLinkWorks = 0;
constexpr size_t kMostText = 96;  // bytes of any name or version

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};

// "GPU-" and "MIG-" say of what it is, and no two things have the same UUID.
std::string_view without_kind(std::string_view uuid) {
  return uuid.starts_with("GPU-") || uuid.starts_with("MIG-") ? uuid.substr(4) : uuid;
}

}  // namespace

class Nvml::Library {
 public:
  // It stays loaded: it may have threads, and others in this process may use it.
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) fail("{}", dlerror());
  }

  // Calls it by name. An older library may lack it: then it fails.
  template <typename... Args>
  bool call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(handle_, name));
    return function != nullptr && function(args...) == kSuccess;
  }

  template <typename... Args>
  std::string text(const char* name, Args... args) const {
    std::array<char, kMostText> buffer{};
    if (!call(name, args..., buffer.data(), static_cast<unsigned>(buffer.size()))) return "";
    return std::string(buffer.data(), strnlen(buffer.data(), buffer.size()));
  }

 private:
  void* const handle_;
};

Nvml::Nvml(const char* library) : library_(std::make_unique<Library>(library)) {
  if (!library_->call("nvmlInit_v2")) {
    fail("{} does not work: the driver is not loaded, or of another version than this library",
         library);
  }
  driver_ = library_->text("nvmlSystemGetDriverVersion");
  library_->call("nvmlSystemGetCudaDriverVersion_v2", &cuda_);
  unsigned count = 0;
  library_->call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (!library_->call("nvmlDeviceGetHandleByIndex_v2", i, &device)) continue;
    devices_.push_back(device);
    gpus_.push_back(examine(device));
  }
}

Nvml::~Nvml() {
  library_->call("nvmlShutdown");
}

Gpu Nvml::examine(Device device) const {
  Gpu gpu{.name = library_->text("nvmlDeviceGetName", device),
          .uuid = library_->text("nvmlDeviceGetUUID", device)};
  Memory memory{};
  if (library_->call("nvmlDeviceGetMemoryInfo", device, &memory)) gpu.memory_bytes = memory.total;
  unsigned current = 0, pending = 0, most = 0;
  gpu.divided = library_->call("nvmlDeviceGetMigMode", device, &current, &pending) && current != 0;
  if (gpu.divided) library_->call("nvmlDeviceGetMaxMigDeviceCount", device, &most);
  for (unsigned i = 0; i < most; ++i) {
    Device part = nullptr;
    if (library_->call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &part)) {
      gpu.parts.push_back(library_->text("nvmlDeviceGetUUID", part));
    }
  }
  return gpu;
}

std::optional<size_t> Nvml::find(const std::string& uuid) const {
  const auto same = [wanted = without_kind(uuid)](const std::string& each) {
    return without_kind(each) == wanted;
  };
  for (size_t i = 0; i < gpus_.size(); ++i) {
    if (same(gpus_[i].uuid) || std::ranges::any_of(gpus_[i].parts, same)) return i;
  }
  return std::nullopt;
}

GpuLoad Nvml::load(size_t gpu) const {
  void* const device = devices_.at(gpu);
  GpuLoad load;
  Memory memory{};
  if (library_->call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    load.memory_used_bytes = memory.used;
  }
  Utilization busy{};
  if (library_->call("nvmlDeviceGetUtilizationRates", device, &busy)) {
    load.busy_percent = static_cast<int>(busy.gpu);
  }
  unsigned celsius = 0, milliwatts = 0;
  if (library_->call("nvmlDeviceGetTemperature", device, kCoreTemperature, &celsius)) {
    load.temperature_c = static_cast<int>(celsius);
  }
  if (library_->call("nvmlDeviceGetPowerUsage", device, &milliwatts)) {
    load.power_w = milliwatts / 1000.0;
  }
  return load;
}

bool Nvml::linked(size_t gpu, size_t other) const {
  int status = -1;
  return library_->call("nvmlDeviceGetP2PStatus", devices_.at(gpu), devices_.at(other), kNvlink,
                        &status) &&
         status == kLinkWorks;
}

}  // namespace adaptdl
