#pragma once

// What the driver knows of this machine's NVIDIA GPUs, by its management library (NVML: NVIDIA
// Management Library API Reference). The library belongs to the driver, and is opened at run time:
// where there are no GPUs there is none.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl {

struct Gpu {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-...", as CUDA_VISIBLE_DEVICES takes it
  uint64_t memory_bytes = 0;
  // Of a GPU that is divided (MIG): CUDA does not show it as a whole, only these parts, "MIG-...".
  bool divided = false;
  std::vector<std::string> parts;
};

// What a GPU does not tell is missing.
struct GpuLoad {
  std::optional<uint64_t> memory_used_bytes;
  std::optional<int> busy_percent;  // of the last second or less in which anything ran on it
  std::optional<int> temperature_c;
  std::optional<double> power_w;
};

// One thread.
class Nvml {
 public:
  // Takes a tenth of a second, or seconds where the driver is not kept loaded. Throws Error: there
  // is no library, or it does not work.
  explicit Nvml(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::string& driver() const { return driver_; }  // its version, "580.95.05"
  int cuda() const { return cuda_; }  // the newest CUDA that it runs, as major * 1000 + minor * 10
  const std::vector<Gpu>& gpus() const { return gpus_; }  // in the order of their PCI addresses
  // The index of the GPU with this UUID, or of which the part has it; nothing if there is none.
  // CUDA tells the UUID of a part without "MIG-": "GPU-" may stand before it, too.
  std::optional<size_t> find(const std::string& uuid) const;
  // `gpu`: an index into gpus().
  GpuLoad load(size_t gpu) const;
  bool linked(size_t gpu, size_t other) const;  // by NVLink

 private:
  class Library;

  Gpu examine(void* device) const;

  const std::unique_ptr<Library> library_;
  std::string driver_;
  int cuda_ = 0;
  std::vector<void*> devices_;
  std::vector<Gpu> gpus_;
};

}  // namespace adaptdl
