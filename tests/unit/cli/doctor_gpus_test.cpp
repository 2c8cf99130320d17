#include "cli/commands/doctor_gpus.h"

#include <doctest/doctest.h>

namespace adaptdl::cli {
namespace {

const Gpu kLarge{.name = "NVIDIA A100", .uuid = "GPU-aa1", .memory_bytes = 80ull << 30};
const Gpu kOther{.name = "NVIDIA A100", .uuid = "GPU-aa2", .memory_bytes = 80ull << 30};
const Gpu kSmall{.name = "NVIDIA T4", .uuid = "GPU-bb1", .memory_bytes = 15ull << 30};
const launch::LibTorch kTorch{.folder = "/torch", .version = "2.11.0+cu130", .cuda = true};

GpuFacts machine(std::vector<Gpu> all) {
  GpuFacts facts{.all = std::move(all), .driver = "580.95.05", .cuda = 13000};
  for (size_t i = 0; i < facts.all.size(); ++i) facts.visible.push_back(fmt::format("{}", i));
  return facts;
}

std::string detail(const GpuFacts& facts) {
  return gpu_finding(facts, &kTorch).detail;
}

}  // namespace

TEST_CASE("doctor's GPUs: none, and their kinds") {
  CHECK(detail({}) == "none; training uses the cores");
  const Finding one = gpu_finding(machine({kLarge}), &kTorch);
  CHECK(one.status == Finding::Status::fine);
  CHECK(one.detail == "1: NVIDIA A100 (80.0 GiB); driver 580.95.05 for CUDA 13.0");
  CHECK(one.facts["visible"] == Json{"0"});
  CHECK(one.facts["cuda"] == "13.0");
  CHECK(one.facts["devices"][0]["uuid"] == "GPU-aa1");
  GpuFacts three = machine({kLarge, kSmall, kOther});
  CHECK(detail(three) ==
        "3: 2 x NVIDIA A100 (80.0 GiB), NVIDIA T4 (15.0 GiB), without NVLink; "
        "driver 580.95.05 for CUDA 13.0");
  three.links = {{0, 2}};
  CHECK(detail(three).find(", some of them joined by NVLink;") != std::string::npos);
  three.nccl = "2.28.9";
  CHECK(detail(three).ends_with("; driver 580.95.05 for CUDA 13.0; NCCL 2.28.9"));
  CHECK(gpu_finding(three, &kTorch).facts["nccl"] == "2.28.9");
}

TEST_CASE("doctor's GPUs: CUDA_VISIBLE_DEVICES shows some, by numbers and names") {
  GpuFacts facts = machine({kLarge, kSmall, kOther});
  facts.links = {{0, 2}};
  facts.allowed = "2,GPU-aa1";
  facts.visible = {"2", "GPU-aa1"};
  CHECK(detail(facts) ==
        "2 of 3 (CUDA_VISIBLE_DEVICES=2,GPU-aa1): 2 x NVIDIA A100 (80.0 GiB), "
        "joined by NVLink; driver 580.95.05 for CUDA 13.0");
  facts.allowed = "";
  facts.visible.clear();
  const Finding none = gpu_finding(facts, &kTorch);
  CHECK(none.status == Finding::Status::note);
  CHECK(none.detail == "none of 3 (CUDA_VISIBLE_DEVICES=); training uses the cores");
}

TEST_CASE("doctor's GPUs: what does not fit together") {
  const GpuFacts facts = machine({kSmall});
  launch::LibTorch torch = kTorch;
  torch.cuda = false;
  torch.version = "2.11.0+cpu";
  Finding found = gpu_finding(facts, &torch);
  CHECK(found.status == Finding::Status::note);
  CHECK(found.detail.ends_with("; LibTorch 2.11.0+cpu has no CUDA, so training uses the cores"));
  CHECK(found.fix == "pip install a torch 2.11.* with CUDA");

  GpuFacts old = facts;
  old.cuda = 12080;
  found = gpu_finding(old, &kTorch);
  CHECK(found.detail.ends_with("; LibTorch 2.11.0+cu130 needs a driver for CUDA 13"));
  CHECK(found.fix == "update the driver, or use a torch for CUDA 12");
  torch = kTorch;
  torch.version = "2.11.0+cu126";
  CHECK(gpu_finding(old, &torch).status == Finding::Status::fine);
  CHECK(gpu_finding(old, nullptr).status == Finding::Status::fine);

  GpuFacts silent{.visible = {"0"}, .problem = "no libnvidia-ml.so.1"};
  found = gpu_finding(silent, &kTorch);
  CHECK(found.status == Finding::Status::note);
  CHECK(found.detail == "1; the driver does not answer: no libnvidia-ml.so.1");
}

TEST_CASE("doctor's GPUs: a divided one") {
  Gpu divided = kLarge;
  divided.divided = true;
  Finding found = gpu_finding(machine({divided}), &kTorch);
  CHECK(found.fix == "divide them: nvidia-smi mig --help");
  divided.parts = {"MIG-1", "MIG-2"};
  GpuFacts facts = machine({kSmall, divided});
  found = gpu_finding(facts, &kTorch);
  CHECK(found.status == Finding::Status::note);
  CHECK(found.fix == "export CUDA_VISIBLE_DEVICES=GPU-bb1,MIG-1,MIG-2");
  facts.visible = {"MIG-1", "MIG-2"};
  found = gpu_finding(facts, &kTorch);
  CHECK(found.status == Finding::Status::fine);
  CHECK(found.detail.starts_with("2: 2 x part of NVIDIA A100; driver"));
}

}  // namespace adaptdl::cli
