// A scaling rule of one's own, beside an adaptive batch: the learning rate follows the square root
// of the batch, but no further than to twice itself. Needs the digits in the working directory, or
// beside the program with `adaptdl run`:
//
//   adaptdl init library digits && cp rule digits && adaptdl run digits/rule --replicas 1:4

#include <adaptdl/adaptdl.h>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
data:
  train:
    - {path: images.npy, dtype: float32, scale: 0.125, offset: -1}
    - {path: labels.npy}
  validation_fraction: 0.2
batch: {initial: 32, adaptive: true, max: 512}
optimizer: {kind: sgd, lr: 0.05, momentum: 0.9}
)";

double capped_root(const adaptdl::BatchScale& at) {
  return std::min(std::sqrt(at.scale), 2.0);
}

}  // namespace

int main() {
  adaptdl::Training training(kSettings);
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(64, 64), torch::nn::ReLU(),
                            torch::nn::Linear(64, 10), torch::nn::LogSoftmax(1));
  training.add(*net);
  training.use_scaling_rule(capped_root);
  double& right = training.add_sum("right");  // over all replicas and steps of an epoch
  double& seen = training.add_sum("seen");

  for (const int64_t epoch : training.remaining_epochs_until(20)) {
    for (auto& batch : training.batches()) {
      const at::Tensor output = net->forward(batch.data[0]);
      right += (output.argmax(1) == batch.data[1]).sum().item<double>();
      seen += static_cast<double>(batch.size);
      training.step(torch::nll_loss(output, batch.data[1]));
    }
    if (training.rank() == 0) {
      const auto last = training.last_step();
      std::printf("epoch %d: %.3f right in training, batch %d, learning rate %.3f\n",
                  static_cast<int>(epoch), training.sum("right") / training.sum("seen"),
                  static_cast<int>(last.batch), last.learning_rate);
      std::fflush(stdout);
    }
    training.log("right", training.sum("right") / training.sum("seen"));
    training.log("seen", training.sum("seen"));
  }
}
