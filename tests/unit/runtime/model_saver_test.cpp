// What is saved as a trained model.

#include "runtime/session/model_saver.h"

#include <cmath>
#include <doctest/doctest.h>

#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"

namespace {

using namespace adaptdl;

class Model : public Program {
 public:
  at::Tensor weight = at::zeros({3}), mean = at::zeros({3}), mask = at::full({2}, -INFINITY);

  std::vector<NamedTensor> parameters() override { return {{"weight", weight}}; }
  std::vector<NamedTensor> buffers() override { return {{"mean", mean}, {"mask", mask}}; }
  at::Tensor training_step(const std::vector<at::Tensor>&) override { return {}; }
  void train(bool) override {}
  void save(const std::string&) override {
    ++attempts;
    if (broken > 0 && broken-- > 0) throw std::runtime_error("no space");
  }
  int attempts = 0, broken = 0;
};

// A model and its saver.
struct Trained {
  Trained() {
    options.model_path = "model.pt";
    saver.allow_any_numbers({"buffer/mask"});
  }

  Model model;
  const TrainingSpec spec;
  TrainOptions options;
  ModelSaver saver{model, spec, options};
};

}  // namespace

TEST_CASE("a model with parameters or buffers that training has spoilt is none") {
  Trained trained;
  Model& model = trained.model;
  const auto save = [&] { return trained.saver.save_trained([] { return true; }, [] {}); };
  CHECK(save() == "model.pt");
  model.mean[1] = NAN;
  CHECK_ERROR(save(), "buffer mean holds numbers that are not finite");
  model.mean.zero_();
  model.weight[0] = INFINITY;
  CHECK_ERROR(save(), "parameter weight holds numbers that are not finite");
}

TEST_CASE("a model that cannot be saved is tried again, and its state is saved meanwhile") {
  Trained trained;
  Model& model = trained.model;
  bool stop = false;
  int failed = 0;
  const auto save = [&] {
    return trained.saver.save_trained([&] { return stop; }, [&] { ++failed; });
  };
  model.broken = 1;
  CHECK(save() == "model.pt");
  CHECK(model.attempts == 2);
  CHECK(failed == 1);
  stop = true;
  model.broken = 1;
  CHECK_ERROR(save(), "the trained model cannot be saved: no space");
  CHECK(model.attempts == 3);
  CHECK(failed == 2);
}
