// Truncated backpropagation through time: a transformer for characters, which remembers the window
// before the present one (Transformer-XL; Dai and others 2019, with one layer and learnt places).
// Needs the text of the example chars:
//
//   adaptdl init chars text && cp text_program text && adaptdl run text/text_program --replicas 1:4

#include <adaptdl/adaptdl.h>
#include <cmath>
#include <cstdio>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
data:
  continuous: true             # sample i of a batch goes on where sample i of the last one ended
  train:
    - {path: text.npy, dtype: int64, window: 32, window_stride: 32}
    - {path: text.npy, dtype: int64, window: 32, window_stride: 32, window_shift: 1}
  validation_fraction: 0.1
batch: {initial: 16}
optimizer: {kind: adam, lr: 0.003, clip_norm: 1}
)";

constexpr int64_t kWindow = 32, kWidth = 64;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("letters", letters);
    register_module("query", query);
    register_module("key_value", key_value);
    register_module("inner", inner);
    register_module("outer", outer);
    register_module("output", output);
    places = register_parameter("places", 0.1 * torch::randn({2 * kWindow, kWidth}));
    later = register_buffer("later", torch::ones({kWindow, 2 * kWindow}).triu(kWindow + 1) > 0);
  }

  // Letters (N, kWindow), and what the last window left, (N, kWindow, kWidth), which the present
  // one's takes the place of. Returns the odds of the next letters, (N, kWindow, 256).
  at::Tensor forward(const at::Tensor& text, at::Tensor& memory) {
    const at::Tensor now = letters(text);
    const at::Tensor all = torch::cat({memory, now}, 1) + places;
    memory = now.detach();
    const auto kv = key_value(all).chunk(2, 2);
    const at::Tensor asked = query(now + places.narrow(0, kWindow, kWindow));
    at::Tensor weights = asked.bmm(kv[0].transpose(1, 2)) / std::sqrt(double{kWidth});
    weights = weights.masked_fill(later, -1e9).softmax(2);
    const at::Tensor seen = now + weights.bmm(kv[1]);
    return output(seen + outer(torch::relu(inner(seen))));
  }

  torch::nn::Embedding letters{256, kWidth};
  torch::nn::Linear query{kWidth, kWidth}, key_value{kWidth, 2 * kWidth};
  torch::nn::Linear inner{kWidth, 2 * kWidth}, outer{2 * kWidth, kWidth}, output{kWidth, 256};
  at::Tensor places, later;
};
TORCH_MODULE(Net);

at::Tensor loss_of(const at::Tensor& odds, const at::Tensor& next) {
  return torch::cross_entropy_loss(odds.flatten(0, 1), next.flatten());
}

}  // namespace

int main() {
  adaptdl::Training training(kSettings);
  torch::manual_seed(1);
  Net net;
  training.add(*net);
  double& fresh = training.add_sum("fresh");  // windows without a memory

  for (const int64_t epoch : training.remaining_epochs_until(1)) {
    at::Tensor memory;
    for (auto& batch : training.batches()) {
      // After a rescale the places in a batch are others.
      if (!batch.goes_on) memory = torch::zeros({batch.size, kWindow, kWidth});
      if (!batch.goes_on) fresh += static_cast<double>(batch.size);
      training.step(loss_of(net->forward(batch.data[0], memory), batch.data[1]));
    }

    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      memory = torch::zeros({batch.size, kWindow, kWidth});
      const at::Tensor loss = loss_of(net->forward(batch.data[0], memory), batch.data[1]);
      sums["loss"] += loss.item<double>() * static_cast<double>(batch.size);
      sums["count"] += static_cast<double>(batch.size);
    }
    training.log("fresh", training.sum("fresh"));
    if (training.rank() == 0) {
      std::printf("epoch %d: loss %.3f\n", static_cast<int>(epoch), sums.mean("loss"));
      std::fflush(stdout);
    }
  }
}
