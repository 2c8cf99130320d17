// Two models that take turns: a generator learns to draw points from a ring of eight clusters, from
// a critic that learns to tell its points from real ones. (Wasserstein GAN with a gradient penalty;
// Gulrajani and others 2017.)
//
//   adaptdl run ./gan --replicas 1:4

#include <adaptdl/adaptdl.h>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include <torch/torch.h>

namespace {

constexpr const char* kSettings = R"(
batch: {initial: 128}
optimizer:
  kind: adam
  beta1: 0.5
  lr: 0.002                    # of the critic
  groups:
    - {match: "generator.*", lr: 0.001}
)";

constexpr int64_t kClusters = 8, kNoise = 4;
constexpr int kCriticTurns = 3;  // for each turn of the generator

// (kClusters, 2), on the unit circle.
at::Tensor centres() {
  const at::Tensor angle = torch::arange(kClusters) * (2 * M_PI / kClusters);
  return torch::stack({angle.cos(), angle.sin()}, 1).to(torch::kFloat);
}

// Points near the centres.
class Ring : public adaptdl::MapDataset {
 public:
  explicit Ring(int64_t size) {
    auto random = torch::make_generator<at::CPUGeneratorImpl>(7);
    points_ = centres().repeat({size / kClusters, 1});
    points_ += 0.05 * torch::randn(points_.sizes(), random);
  }
  int64_t size() const override { return points_.size(0); }
  std::vector<at::Tensor> get(int64_t index) const override { return {points_[index]}; }

 private:
  at::Tensor points_;
};

torch::nn::Sequential network(int64_t inputs, int64_t outputs) {
  return torch::nn::Sequential(torch::nn::Linear(inputs, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, outputs));
}

// How far the slope of `critic` is from 1 between real and drawn points.
at::Tensor penalty(torch::nn::Sequential& critic, const at::Tensor& real, const at::Tensor& drawn) {
  const at::Tensor share = torch::rand({real.size(0), 1});
  const at::Tensor between = (share * real + (1 - share) * drawn).requires_grad_();
  const at::Tensor slope = torch::autograd::grad({critic->forward(between).sum()}, {between}, {},
                                                 /*retain_graph=*/true, /*create_graph=*/true)[0];
  return (slope.norm(2, 1) - 1).square().mean();
}

}  // namespace

int main() {
  adaptdl::Training training(kSettings);
  torch::manual_seed(1);
  torch::nn::Sequential generator = network(kNoise, 2), critic = network(2, 1);
  training.add_model("generator", *generator);
  training.add_model("critic", *critic);
  training.use_data(std::make_shared<Ring>(12800), std::make_shared<Ring>(800));

  for (const int64_t epoch : training.remaining_epochs_until(12)) {
    for (auto& batch : training.batches()) {
      const at::Tensor& real = batch.data[0];
      const at::Tensor drawn = generator->forward(torch::randn({batch.size, kNoise})).detach();
      training.step("critic", critic->forward(drawn).mean() - critic->forward(real).mean() +
                                  0.1 * penalty(critic, real, drawn));
      if ((training.last_step().step + 1) % kCriticTurns == 0) {
        const at::Tensor better = generator->forward(torch::randn({batch.size, kNoise}));
        training.step("generator", -critic->forward(better).mean());
      }
    }

    // How near drawn points are to a cluster, and how many clusters each has its share of them.
    const torch::NoGradGuard no_grad;
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      const at::Tensor drawn = generator->forward(torch::randn({batch.size, kNoise}));
      const auto [distance, cluster] = torch::cdist(drawn, centres()).min(1);
      sums["distance"] += distance.sum().item<double>();
      for (int64_t i = 0; i < kClusters; ++i) {
        sums["cluster " + std::to_string(i)] += (cluster == i).sum().item<double>();
      }
      sums["count"] += static_cast<double>(batch.size);
    }
    if (training.rank() == 0) {
      std::printf("epoch %d: distance %.3f\n", static_cast<int>(epoch), sums.mean("distance"));
      std::fflush(stdout);
    }
  }
}
