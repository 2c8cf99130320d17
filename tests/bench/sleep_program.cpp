// A program that uses the runtime library, for measurements of elasticity. A step sleeps 50 ms, so
// that more replicas than cores do not disturb each other. The state has 100 MB: parameters and
// Adam's two moments.
//
//   adaptdl run ./sleep_program [-- SECONDS_OF_SLEEP]
//
// In the third step of every generation with several replicas it also times a plain broadcast of
// the same bytes over the generation's communicator, and logs "broadcast BYTES SECONDS".

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "adaptdl/program.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "runtime/comm/communicator.h"
#include "runtime/session/launch_settings.h"
#include "runtime/session/program_data.h"
#include "runtime/session/session.h"
#include "runtime/session/trainer.h"

using namespace adaptdl;

namespace {

constexpr int64_t kTensors = 8;
constexpr int64_t kElements = 100'000'000 / 4 / 3 / kTensors;
constexpr int kBroadcastAtStep = 3;

constexpr const char* kSettings = R"(
format: 1
name: sleep
epochs: 1000000
data:
  train:
    - {format: synthetic, samples: 4096, shape: [4], seed: 1}
batch: {initial: 12}
optimizer: {kind: adam, lr: 1.0e-6}
checkpoint_interval_s: 100000
)";

class SleepProgram : public Program {
 public:
  SleepProgram(const Session& session, double sleep_s) : session_(session), sleep_(sleep_s) {
    for (int64_t i = 0; i < kTensors; ++i) {
      tensors_.push_back(at::full({kElements}, 1.0).set_requires_grad(true));
    }
  }

  std::vector<NamedTensor> parameters() override {
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < tensors_.size(); ++i) named.push_back({std::to_string(i), tensors_[i]});
    return named;
  }
  std::vector<NamedTensor> buffers() override { return {}; }

  at::Tensor training_step(const std::vector<at::Tensor>& batch) override {
    time_broadcast();
    std::this_thread::sleep_for(sleep_);
    at::Tensor loss = batch[0].mean();
    for (const auto& tensor : tensors_) loss = loss + tensor.mean();
    return loss;
  }
  void train(bool) override {}
  void save(const std::string&) override {}

 private:
  // All replicas call training_step together, and no other collective runs at its beginning.
  void time_broadcast() {
    auto* communicator = session_.communicator();
    if (generation_ != session_.generation()) steps_ = 0;
    generation_ = session_.generation();
    if (!communicator || ++steps_ != kBroadcastAtStep) return;
    if (scratch_.empty()) scratch_.assign(3 * kTensors * kElements, 1.0f);
    communicator->barrier();
    const auto begun = Monotonic::now();
    // Only one replica stores it, as only a new replica stores the state.
    const bool keep = communicator->rank() == communicator->size() - 1;
    const auto bytes = static_cast<size_t>(kElements) * sizeof(float);
    for (int64_t i = 0; i < 3 * kTensors; ++i) {
      communicator->broadcast(scratch_.data() + i * kElements, bytes, 0, keep);
    }
    std::fprintf(stderr, "broadcast %zu %.6f\n", scratch_.size() * sizeof(float),
                 seconds_since(begun));
  }

  const Session& session_;
  std::chrono::duration<double> sleep_;
  std::vector<at::Tensor> tensors_;
  std::vector<float> scratch_;
  uint64_t generation_ = 0;
  int steps_ = 0;
};

int run(Session& session, double sleep_s) {
  const LaunchSettings launch = LaunchSettings::from(session.settings());
  at::set_num_threads(launch.threads);
  const TrainingSpec spec = parse_training_spec(kSettings, "sleep_program", launch.overrides);
  SleepProgram program(session, sleep_s);
  TrainOptions options = launch.options;
  options.data = open_program_data(program.data(), spec, options.data_dir);
  return train(program, spec, options, session);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Session session;
    if (!session.has_launcher()) fail("started by `adaptdl run`, not by hand");
    try {
      return run(session, argc > 1 ? std::atof(argv[1]) : 0.05);
    } catch (const std::exception& error) {
      session.send({{"type", "fatal"}, {"message", error.what()}, {"exit", 1}});
      throw;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sleep_program: %s\n", error.what());
    return 1;
  }
}
