// Trains a small network on images of handwritten digits, with any number of replicas:
//
//   adaptdl run build/train --replicas 1:4
//   adaptdl scale train 2          # in another terminal
//
// Started by hand (cd build && ./train), it trains as a single replica. man adaptdl-runtime
// explains the library, man adaptdl-train the settings; a setting for one run: --set batch.max=256.

#include <adaptdl/adaptdl.h>
#include <string>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
data:
  train:                       # one entry for each tensor in batch.data
    - path: images.npy         # uint8, 0..16
      dtype: float32
      scale: 0.125             # to -1..1
      offset: -1
    - path: labels.npy
  validation_fraction: 0.2
batch:
  initial: 32                  # what the learning rate below is meant for
  adaptive: true               # adaptdl raises it, and the learning rate with it, when that pays
  max: 512
optimizer: {kind: sgd, lr: 0.02, momentum: 0.9, weight_decay: 0.0005}
)";

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv", conv);
    register_module("hidden", hidden);
    register_module("output", output);
  }
  // Images (N, 1, 8, 8) to log-probabilities (N, 10).
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv(x)), 2).flatten(1);
    return torch::log_softmax(output(torch::relu(hidden(x))), 1);
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 16, 3).padding(1)};
  torch::nn::Linear hidden{256, 64}, output{64, 10};
};
TORCH_MODULE(Net);

}  // namespace

int main() {
  adaptdl::Training training(kSettings);
  Net net;
  net->to(training.device());
  training.add(*net);
  training.save_model([&](const std::string& path) { torch::save(net, path); });

  for (const int64_t epoch : training.remaining_epochs_until(20)) {
    net->train();
    for (auto& batch : training.batches()) {
      training.step(torch::nll_loss(net->forward(batch.data[0]), batch.data[1]));
    }

    net->eval();
    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();  // of all replicas, after the loop
    for (auto& batch : training.validation_batches()) {
      const torch::Tensor output = net->forward(batch.data[0]);
      sums["accuracy"] += (output.argmax(1) == batch.data[1]).sum().item<double>();
      sums["count"] += static_cast<double>(batch.size);
    }
    if (training.rank() == 0) {
      std::printf("epoch %d: accuracy %.3f\n", static_cast<int>(epoch), sums.mean("accuracy"));
      std::fflush(stdout);
    }
  }
}
