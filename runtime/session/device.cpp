#include "runtime/session/device.h"

#include <dlfcn.h>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

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

}  // namespace adaptdl
