#include "runtime/session/device.h"

#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/system.h"
#include "core/job/hints.h"
#include "core/job/worker_environment.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

namespace {

// By the driver, which LibTorch's CUDA library has loaded: no header of CUDA is needed.
std::string gpu_name(int index) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!driver) return "";
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto device = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  char text[128] = {};
  int handle = 0;
  const bool told = init && device && name && init(0) == 0 && device(&handle, index) == 0 &&
                    name(text, sizeof text - 1, handle) == 0;
  dlclose(driver);
  return told ? text : "";
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
        "LibTorch finds no usable GPU (is the driver loaded?); to train without, use --device cpu");
  }
  return at::Device(at::kCUDA, 0);
}

std::string accelerator_kind(const at::Device& device) {
  std::string kind = environment_variable(kAcceleratorVariable).value_or("");
  if (kind.empty()) kind = device.is_cpu() ? cpu_model() : gpu_name(device.index());
  for (char& c : kind) {
    if (c < ' ' || c > '~') c = '?';  // it must be valid in JSON, cut anywhere
  }
  return joined_kinds({kind});  // no longer than hints may say
}

}  // namespace adaptdl
