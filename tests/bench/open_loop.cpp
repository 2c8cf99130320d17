// The program of AdaptDL's tutorial, a small convolutional net for images of 28 x 28, in a bare
// loop of LibTorch and in this library's open loop; one replica, one thread.
//
//   open_loop bare|open
//
// Prints "ready" after a few steps. Then for every line N on standard input it runs N steps of SGD,
// and prints the seconds that they took.

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "adaptdl/training.h"

namespace {

constexpr int kBatch = 64, kBatches = 8, kWarmup = 10;
constexpr double kRate = 0.01;

constexpr const char* kSettings = R"(
epochs: 1000000
data:
  train:
    - {format: synthetic, samples: 51200, shape: [1, 28, 28]}
    - {format: synthetic, samples: 51200, classes: 10}
batch: {initial: 64}
optimizer: {kind: sgd, lr: 0.01}
)";

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("dropout1", dropout1);
    register_module("dropout2", dropout2);
    register_module("hidden", hidden);
    register_module("output", output);
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::relu(conv2(torch::relu(conv1(x))));
    x = dropout1(torch::max_pool2d(x, 2)).flatten(1);
    return torch::log_softmax(output(dropout2(torch::relu(hidden(x)))), 1);
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 32, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(32, 64, 3)};
  torch::nn::Dropout dropout1{0.25}, dropout2{0.5};
  torch::nn::Linear hidden{9216, 128}, output{128, 10};
};
TORCH_MODULE(Net);

// Call before each step; the first call begins after the warm-up.
class Clock {
 public:
  // False at the end of the input.
  bool tick() {
    if (left_-- > 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (warm_) {
      std::printf("%.9f\n", std::chrono::duration<double>(now - begun_).count());
    } else {
      std::puts("ready");
    }
    std::fflush(stdout);
    warm_ = true;
    if (!(std::cin >> left_)) return false;
    --left_;
    begun_ = std::chrono::steady_clock::now();
    return true;
  }

 private:
  long left_ = kWarmup;
  bool warm_ = false;
  std::chrono::steady_clock::time_point begun_;
};

void bare() {
  at::set_num_threads(1);
  Net net;
  net->train();
  std::vector<std::pair<at::Tensor, at::Tensor>> batches;
  for (int i = 0; i < kBatches; ++i) {
    batches.emplace_back(at::randn({kBatch, 1, 28, 28}), at::randint(10, {kBatch}, at::kLong));
  }
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(kRate));
  Clock clock;
  for (size_t next = 0; clock.tick(); ++next) {
    const auto& [images, labels] = batches[next % kBatches];
    optimizer.zero_grad();
    torch::nll_loss(net->forward(images), labels).backward();
    optimizer.step();
  }
}

void open() {
  adaptdl::Training training(kSettings);
  Net net;
  training.add(*net);
  Clock clock;
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    net->train();
    for (auto& batch : training.batches()) {
      if (!clock.tick()) std::exit(0);
      training.step(torch::nll_loss(net->forward(batch.data[0]), batch.data[1]));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string loop = argc == 2 ? argv[1] : "";
  if (loop == "bare") {
    bare();
  } else if (loop == "open") {
    open();
  } else {
    std::fprintf(stderr, "usage: %s bare|open\n", argv[0]);
    return 2;
  }
  return 0;
}
