// What is saved as a trained model.

#include "runtime/session/model_saver.h"

#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/base/files.h"
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
  void save(const std::string& path) override {
    ++attempts;
    if (writes) write_file_atomic(path, "half");
    if (broken > 0 && broken-- > 0) throw std::runtime_error("no space");
    if (writes) write_file_atomic(path, "whole");
  }
  int attempts = 0, broken = 0;
  bool writes = false;
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

TEST_CASE("a model has its name once it is whole, and a part of a failed attempt is removed") {
  const TemporaryDirectory folder;
  Trained trained;
  trained.options.model_path = folder.file("model.pt");
  trained.model.writes = true;
  const auto save = [&] { return trained.saver.save_trained([] { return true; }, [] {}); };
  trained.model.broken = 1;
  CHECK_ERROR(save(), "no space");
  CHECK(list_directory(folder.path()).empty());
  CHECK(save() == folder.file("model.pt"));
  trained.model.broken = 1;
  CHECK_ERROR(save(), "no space");
  CHECK(read_file(folder.file("model.pt"), 100) == "whole");
  CHECK(list_directory(folder.path()).size() == 1);
  // What a killed writer left is not the model of a program that writes none.
  write_file_atomic(folder.file("model.pt.part"), "old");
  trained.model.writes = false;
  save();
  CHECK(read_file(folder.file("model.pt"), 100) == "whole");
  CHECK(list_directory(folder.path()).size() == 1);
}

TEST_CASE("a best model that is not there is not named") {
  const TemporaryDirectory folder;
  Model model;
  TrainingSpec spec;
  spec.best.emplace();
  TrainOptions options;
  options.best_path = folder.file("best.pt");
  Progress progress;
  progress.step = progress.best_step = 7;
  progress.best = {{"loss", 0.5}};
  ModelSaver resumed(model, spec, options);
  CHECK(resumed.best(progress)["step"] == 7);
  CHECK(resumed.best(progress)["model"].is_null());
  write_file_atomic(options.best_path, "of the run before");
  CHECK(resumed.best(progress)["model"] == options.best_path);
  remove_tree(options.best_path);
  model.writes = true;
  CHECK(resumed.save_best(7).empty());
  CHECK(resumed.best(progress)["model"] == options.best_path);
}
