// A bare LibTorch training loop over a train.pt, for comparison with `adaptdl run`; one thread.
//
//   bare_loop ARCHIVE BATCH CLASSES DIMENSION...
//
// Prints "loaded" when LibTorch and the archive are loaded, "ready" after a few steps. Then for
// every line N on standard input it runs N steps of SGD over batches in memory, and prints the
// seconds that they took.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/optim/sgd.h>

namespace {

constexpr int kBatches = 8, kWarmup = 5;

void say(const char* word) {
  std::puts(word);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  at::set_num_threads(1);
  auto module = torch::jit::load(argv[1]);
  say("loaded");
  if (argc < 5) return 0;

  std::vector<int64_t> shape;
  for (int i = 2; i < argc; ++i) {
    if (i != 3) shape.push_back(std::atoll(argv[i]));
  }
  std::vector<c10::List<at::Tensor>> batches;
  for (int i = 0; i < kBatches; ++i) {
    batches.push_back(c10::List<at::Tensor>(
        {at::randn(shape), at::randint(std::atoll(argv[3]), {shape[0]}, at::kLong)}));
  }
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters()) parameters.push_back(parameter);
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.01));
  auto training_step = module.get_method("training_step");
  module.train();

  size_t next = 0;
  const auto steps = [&](long count) {
    const auto begun = std::chrono::steady_clock::now();
    for (long i = 0; i < count; ++i) {
      optimizer.zero_grad();
      training_step({batches[next++ % kBatches]}).toTensor().backward();
      optimizer.step();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  steps(kWarmup);
  say("ready");
  for (long count = 0; std::cin >> count;) {
    std::printf("%.9f\n", steps(count));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc < 5) {
    std::fprintf(stderr, "usage: %s ARCHIVE [BATCH CLASSES DIMENSION...]\n", argv[0]);
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bare_loop: %s\n", error.what());
    return 1;
  }
}
