// Reinforcement learning: a policy learns to balance a pole on a cart (REINFORCE; Williams 1992).
// Its samples are episodes, which it plays itself; what the library deals out is their seeds.
//
//   adaptdl run ./policy --replicas 1:4

#include <adaptdl/adaptdl.h>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
batch: {initial: 32}                # episodes
optimizer: {kind: adam, lr: 0.02}
)";

constexpr int64_t kLongest = 200;  // steps of an episode

// Sample i is the number of an episode.
class Episodes : public adaptdl::MapDataset {
 public:
  Episodes(int64_t first, int64_t size) : first_(first), size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<at::Tensor> get(int64_t index) const override {
    return {torch::tensor(first_ + index)};
  }

 private:
  int64_t first_, size_;
};

// Carts with poles, all at once (Barto, Sutton, Anderson 1983; the numbers are Gymnasium's).
class Carts {
 public:
  explicit Carts(const at::Tensor& seeds) {
    std::vector<at::Tensor> begins;
    for (int64_t i = 0; i < seeds.size(0); ++i) {
      auto random = torch::make_generator<at::CPUGeneratorImpl>(seeds[i].item<int64_t>());
      begins.push_back(torch::rand({4}, random) * 0.1 - 0.05);
    }
    state_ = torch::stack(begins);
    alive_ = torch::ones(seeds.size(0));
  }

  const at::Tensor& state() const { return state_; }  // (N, 4): place, speed, angle, its speed
  const at::Tensor& alive() const { return alive_; }  // (N): 1 until the pole falls

  // `actions` (N): 1 pushes right, 0 left.
  void push(const at::Tensor& actions) {
    const auto parts = state_.unbind(1);
    const at::Tensor cos = parts[2].cos(), sin = parts[2].sin();
    const at::Tensor push = (actions * 20 - 10 + 0.05 * parts[3].square() * sin) / 1.1;
    const at::Tensor turn = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3 - 0.1 * cos.square() / 1.1));
    const at::Tensor faster = push - 0.05 * turn * cos / 1.1;
    state_ = state_ + 0.02 * torch::stack({parts[1], faster, parts[3], turn}, 1);
    const at::Tensor stands =
        (state_.select(1, 0).abs() < 2.4) * (state_.select(1, 2).abs() < 0.21);
    alive_ = alive_ * stands;
  }

 private:
  at::Tensor state_, alive_;
};

}  // namespace

int main() {
  adaptdl::Training training(kSettings);
  torch::manual_seed(4);
  torch::nn::Sequential policy(torch::nn::Linear(4, 64), torch::nn::Tanh(),
                               torch::nn::Linear(64, 1));  // the odds of a push to the right
  training.add(*policy);
  training.use_data(std::make_shared<Episodes>(0, 640), std::make_shared<Episodes>(640, 64));

  for (const int64_t epoch : training.remaining_epochs_until(5)) {
    for (auto& batch : training.batches()) {
      // Plays the episodes, then learns from their steps.
      Carts carts(batch.data[0]);
      std::vector<at::Tensor> states, actions, alive;
      for (int64_t t = 0; t < kLongest && carts.alive().any().item<bool>(); ++t) {
        const torch::NoGradGuard no_grad;
        states.push_back(carts.state());
        alive.push_back(carts.alive());
        const at::Tensor odds = policy->forward(carts.state()).squeeze(1);
        actions.push_back((torch::rand_like(odds) < odds.sigmoid()).to(torch::kFloat));
        carts.push(actions.back());
      }
      // What was still to come in each step: the steps until the pole falls, less their mean.
      const at::Tensor counted = torch::stack(alive);
      const at::Tensor to_come = counted.flip(0).cumsum(0).flip(0);
      const at::Tensor mean = (to_come * counted).sum() / counted.sum();
      const at::Tensor surprise = torch::binary_cross_entropy_with_logits(
          policy->forward(torch::stack(states)).squeeze(2), torch::stack(actions), {}, {},
          at::Reduction::None);
      training.step((surprise * (to_come - mean) * counted).sum() / (batch.size * kLongest));
    }

    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      Carts carts(batch.data[0]);
      for (int64_t t = 0; t < kLongest; ++t) {
        sums["steps"] += carts.alive().sum().item<double>();
        carts.push((policy->forward(carts.state()).squeeze(1) > 0).to(torch::kFloat));
      }
      sums["count"] += static_cast<double>(batch.size);
    }
    if (training.rank() == 0) {
      std::printf("epoch %d: %.1f steps\n", static_cast<int>(epoch), sums.mean("steps"));
      std::fflush(stdout);
    }
  }
}
