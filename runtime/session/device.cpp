#include "runtime/session/device.h"

#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <optional>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/system.h"
#include "core/job/hints.h"
#include "core/job/worker_environment.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

namespace {

// The CUDA driver, which LibTorch's CUDA library has loaded: no header of CUDA is needed.
class Driver {
 public:
  Driver() : handle_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {}
  ~Driver() {
    if (handle_) dlclose(handle_);
  }
  Driver(const Driver&) = delete;

  std::string name(int index) const {
    char text[128] = {};
    const auto get = find<int (*)(char*, int, int)>("cuDeviceGetName");
    const auto device = open(index);
    return get && device && get(text, sizeof text - 1, *device) == 0 ? text : "";
  }

  std::string id(int index) const {
    std::array<uint8_t, 16> bytes{};
    // Tells parts of one GPU (MIG) apart.
    const auto get = find<int (*)(void*, int)>("cuDeviceGetUuid_v2");
    const auto device = open(index);
    if (!get || !device || get(bytes.data(), *device) != 0) return "";
    std::string text = "GPU-" + to_hex(bytes);
    for (const size_t dash : {12u, 17u, 22u, 27u}) text.insert(dash, 1, '-');
    return text;
  }

  // Of the newest CUDA that it runs, as major * 1000 + minor * 10; nothing if it is not loaded.
  std::optional<int> cuda() const {
    int version = 0;
    const auto get = find<int (*)(int*)>("cuDriverGetVersion");
    return get && get(&version) == 0 ? std::optional(version) : std::nullopt;
  }

  bool pin(void* memory, size_t bytes) const {
    constexpr unsigned kForAllContexts = 1;
    const auto lock = find<int (*)(void*, size_t, unsigned)>("cuMemHostRegister_v2");
    return lock && lock(memory, bytes, kForAllContexts) == 0;
  }

  void unpin(void* memory) const {
    if (const auto unlock = find<int (*)(void*)>("cuMemHostUnregister")) unlock(memory);
  }

 private:
  template <typename Function>
  Function find(const char* symbol) const {
    return handle_ ? reinterpret_cast<Function>(dlsym(handle_, symbol)) : nullptr;
  }
  std::optional<int> open(int index) const {
    int device = 0;
    const auto init = find<int (*)(unsigned)>("cuInit");
    const auto get = find<int (*)(int*, int)>("cuDeviceGet");
    if (!init || !get || init(0) != 0 || get(&device, index) != 0) return std::nullopt;
    return device;
  }

  void* const handle_;
};

// What decides whether LibTorch finds a GPU.
std::string circumstances() {
  const std::optional<int> cuda = Driver().cuda();
  std::string text =
      cuda ? fmt::format("the driver runs CUDA up to {}.{}", *cuda / 1000, *cuda % 1000 / 10)
           : "no driver of CUDA is loaded";
  if (const auto visible = environment_variable("CUDA_VISIBLE_DEVICES", /*empty_counts=*/true)) {
    text += fmt::format(", CUDA_VISIBLE_DEVICES is \"{}\"", *visible);
  }
  return text;
}

}  // namespace

at::Device open_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name != "cuda:0") fail("unknown device \"{}\"; use cpu or cuda:0", name);
  // LibTorch's CUDA library registers itself when loaded, so the same worker runs on machines with
  // and without CUDA.
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
    fail(
        "this LibTorch cannot use a GPU: {}; set ADAPTDL_LIBTORCH to a LibTorch with CUDA, or use "
        "--device cpu",
        dlerror());
  }
  if (!at::globalContext().hasCUDA()) {
    fail(
        "LibTorch finds no usable GPU ({}); `adaptdl doctor` says what does not fit together, "
        "--device cpu trains without a GPU",
        circumstances());
  }
  return at::Device(at::kCUDA, 0);
}

std::string accelerator_kind(const at::Device& device) {
  std::string kind = environment_variable(kAcceleratorVariable).value_or("");
  if (kind.empty()) kind = device.is_cpu() ? cpu_model() : Driver().name(device.index());
  for (char& c : kind) {
    if (c < ' ' || c > '~') c = '?';  // it must be valid in JSON, cut anywhere
  }
  return joined_kinds({kind});  // no longer than hints may say
}

std::string gpu_id(const at::Device& device) {
  return device.is_cpu() ? "" : Driver().id(device.index());
}

SnapshotBuffer::Pinning pinning(const at::Device& device) {
  if (device.is_cpu()) return {};
  return {[](void* memory, size_t bytes) { return Driver().pin(memory, bytes); },
          [](void* memory) { Driver().unpin(memory); }};
}

}  // namespace adaptdl
