// A user's program, linked with the static runtime library: fits four weights to the mean of their
// inputs, with 20 ms per step and 40 steps per epoch. With optimizer.kind=program it brings its own
// optimizer, which is sgd with a momentum of 0.9.

#include <adaptdl/adaptdl.h>
#include <chrono>
#include <thread>

#include <torch/serialize.h>

namespace {

constexpr const char* kSettings = R"(
name: linked
data:
  train:
    - {format: synthetic, samples: 640, shape: [4], seed: 1}
batch: {initial: 16}
optimizer: {kind: sgd, lr: 0.1}
epochs: 4
)";

class Momentum : public adaptdl::UpdateRule {
 public:
  std::vector<std::string> state_names() const override { return {"velocity"}; }
  void update(const adaptdl::Update& update) const override {
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      update.state[0][i].mul_(0.9).add_(update.gradients[i]);
      update.parameters[i].sub_(update.state[0][i], update.lr);
    }
  }
};

class Mean : public adaptdl::Program {
 public:
  std::vector<adaptdl::NamedTensor> parameters() override { return {{"weight", weight_}}; }
  std::vector<adaptdl::NamedTensor> buffers() override { return {}; }

  at::Tensor training_step(const std::vector<at::Tensor>& batch) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return (batch[0].matmul(weight_) - batch[0].mean(1)).square().mean();
  }
  std::unique_ptr<adaptdl::UpdateRule> update_rule(const adaptdl::OptimizerGroup&) override {
    return std::make_unique<Momentum>();
  }
  void train(bool) override {}
  void save(const std::string& path) override { torch::save(weight_, path); }

 private:
  at::Tensor weight_ = at::zeros({4}).set_requires_grad(true);
};

}  // namespace

int main() {
  return adaptdl::run_program(
      kSettings, [](const adaptdl::ProgramContext&) { return std::make_unique<Mean>(); });
}
