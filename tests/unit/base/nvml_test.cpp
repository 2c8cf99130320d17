#include "core/base/nvml.h"

#include "tests/unit/base/expect_error.h"

namespace adaptdl {

TEST_CASE("NVML: what the driver says of the GPUs") {
  const Nvml nvml(ADAPTDL_FAKE_NVML);
  CHECK(nvml.driver() == "580.95.05");
  CHECK(nvml.cuda() == 13000);
  REQUIRE(nvml.gpus().size() == 2);
  const Gpu& whole = nvml.gpus()[0];
  CHECK(whole.name == "NVIDIA H200");
  CHECK(whole.uuid == "GPU-11111111-aaaa");
  CHECK(whole.memory_bytes == 150ull << 30);
  CHECK_FALSE(whole.divided);
  CHECK(whole.parts.empty());
  CHECK(nvml.gpus()[1].divided);
  CHECK(nvml.gpus()[1].parts == std::vector<std::string>{"MIG-1", "MIG-2"});
  CHECK(nvml.linked(0, 1));
  CHECK_FALSE(nvml.linked(0, 0));

  CHECK(nvml.find("GPU-11111111-aaaa") == 0);
  CHECK(nvml.find("MIG-2") == 1);
  CHECK(nvml.find("GPU-2") == 1);  // as CUDA names that part
  CHECK_FALSE(nvml.find("GPU-11111111"));
  CHECK_FALSE(nvml.find("MIG-3"));
  CHECK_FALSE(nvml.find(""));

  const GpuLoad load = nvml.load(0);
  CHECK(load.memory_used_bytes == 34ull << 30);
  CHECK(load.busy_percent == 87);
  CHECK(load.temperature_c == 61);
  CHECK(load.power_w == 512.3);
  CHECK_FALSE(nvml.load(1).power_w);
}

TEST_CASE("NVML: no library, and one that is something else") {
  CHECK_ERROR(Nvml("libadaptdl-none.so.1"), "libadaptdl-none.so.1");
  CHECK_ERROR(Nvml("libm.so.6"), "libm.so.6 does not work");
}

}  // namespace adaptdl
