#include "adaptdl/training.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include <torch/nn.h>

#include "runtime/open/open_loop.h"
#include "runtime/open/open_program.h"

#undef CHECK  // LibTorch's
#include <doctest/doctest.h>

namespace {

using adaptdl::Training;

// Alone, without a launcher: 20 samples in batches of 8.
constexpr const char* kSettings = R"(
epochs: 2
data:
  train: [{format: synthetic, samples: 20, shape: [4]}]
  validation: [{format: synthetic, samples: 6, shape: [4], seed: 1}]
batch: {initial: 8}
optimizer: {kind: sgd, lr: 0.1}
)";

struct LinearModel {
  at::Tensor weight = at::ones({4}).set_requires_grad(true);
  at::Tensor loss(const adaptdl::Batch& batch) const {
    return (batch.data[0].matmul(weight)).square().mean();
  }
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& error, const std::string& words) {
  return error.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("an open loop gives each epoch's batches, and updates after each step") {
  Training training(kSettings);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  std::vector<int64_t> epochs, sizes;
  for (const int64_t epoch : training.epochs()) {
    epochs.push_back(epoch);
    for (auto& batch : training.batches()) {
      sizes.push_back(batch.size);
      CHECK(batch.data.at(0).size(0) == batch.size);
      const at::Tensor before = model.weight.detach().clone();
      training.step(model.loss(batch));
      CHECK(!at::equal(before, model.weight));
    }
  }
  CHECK(epochs == std::vector<int64_t>{0, 1});
  CHECK(sizes == std::vector<int64_t>{8, 8, 4, 8, 8, 4});
  int more = 0;
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) ++more;
  CHECK(more == 0);
}

TEST_CASE("each sample of a validation counts once") {
  Training training(kSettings);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  int64_t validations = 0;
  for ([[maybe_unused]] const int64_t epoch : training.remaining_epochs_until(3)) {
    for (auto& batch : training.batches()) training.step(model.loss(batch));
    const at::NoGradGuard no_grad;
    auto& sums = training.accumulator();
    for (auto& batch : training.validation_batches()) {
      sums["loss"] += model.loss(batch).item<double>() * static_cast<double>(batch.size);
      sums["count"] += static_cast<double>(batch.size);
    }
    CHECK(sums["count"] == 6);
    CHECK(sums.mean("loss") > 0);
    CHECK(sums.mean("other") == 0);
    CHECK(says(error_of([&] { training.validation_batches(); }), "once in each epoch"));
    ++validations;
    break;
  }
  CHECK(validations == 1);
}

TEST_CASE("an epoch that is left early comes again where it was left") {
  Training training(kSettings);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  std::vector<int64_t> epochs, sizes;
  for (const int64_t epoch : training.epochs()) {
    epochs.push_back(epoch);
    for (auto& batch : training.batches()) {
      sizes.push_back(batch.size);
      training.step(model.loss(batch));
      if (sizes.size() == 2) break;
    }
  }
  CHECK(epochs == std::vector<int64_t>{0, 0, 1});
  CHECK(sizes == std::vector<int64_t>{8, 8, 4, 8, 8, 4});
}

TEST_CASE("a step of several passes updates after the last one") {
  Training training(
      std::regex_replace(kSettings, std::regex("initial: 8"), "initial: 8, atomic_max: 4"));
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  std::vector<int64_t> sizes;
  std::vector<bool> updated;
  for ([[maybe_unused]] const int64_t epoch : training.remaining_epochs_until(1)) {
    for (auto& batch : training.batches()) {
      sizes.push_back(batch.size);
      const at::Tensor before = model.weight.detach().clone();
      training.step(model.loss(batch));
      updated.push_back(!at::equal(before, model.weight));
    }
  }
  CHECK(sizes == std::vector<int64_t>{4, 4, 4, 4, 4});
  CHECK(updated == std::vector<bool>{false, true, false, true, true});
}

namespace {

constexpr const char* kNoData = R"(
data: {shuffle: false}
batch: {initial: 4}
optimizer: {kind: sgd, lr: 0.1}
)";

// Sample i is {i, i, i, i}, and i + 1 numbers.
class Counting : public adaptdl::MapDataset {
 public:
  int64_t size() const override { return 6; }
  std::vector<at::Tensor> get(int64_t index) const override {
    return {at::full({4}, static_cast<double>(index)), at::ones({index + 1})};
  }
  std::vector<at::Tensor> collate(std::vector<std::vector<at::Tensor>> samples) const override {
    std::vector<at::Tensor> longest, sums;
    for (const auto& sample : samples) {
      longest.push_back(sample[0]);
      sums.push_back(sample[1].sum());
    }
    return {at::stack(longest), at::stack(sums)};
  }
};

// As those of torch::data.
struct Example {
  at::Tensor data, target;
};
struct TorchLike {
  Example get(size_t index) { return {at::full({4}, static_cast<double>(index)), at::ones({})}; }
  std::optional<size_t> size() const { return 5; }
};

// And those with transforms.
struct TransformedLike {
  std::vector<Example> get_batch(at::ArrayRef<size_t> indices) {
    return {{at::full({4}, static_cast<double>(indices[0])), at::ones({})}};
  }
  std::optional<size_t> size() const { return 5; }
};

class Ragged : public Counting {
 public:
  std::vector<at::Tensor> collate(std::vector<std::vector<at::Tensor>> samples) const override {
    return samples.front();
  }
};

}  // namespace

TEST_CASE("a program's own data come in the sampler's order, collated by it") {
  Training training(kNoData);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  training.use_data(std::make_shared<Counting>(), std::make_shared<Counting>());
  std::vector<double> first, sums;
  double validated = 0;
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    for (auto& batch : training.batches()) {
      CHECK(batch.data.size() == 2);
      for (int64_t i = 0; i < batch.size; ++i) {
        first.push_back(batch.data[0][i][3].item<double>());
        sums.push_back(batch.data[1][i].item<double>());
      }
      training.step(model.loss(batch));
    }
    for (auto& batch : training.validation_batches()) {
      training.accumulator()["count"] += static_cast<double>(batch.size);
    }
    validated = training.accumulator()["count"];
  }
  CHECK(first == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(sums == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(validated == 6);
}

TEST_CASE("a data set of torch::data is used as it is") {
  const auto data = adaptdl::map_dataset(TorchLike());
  CHECK(data->size() == 5);
  CHECK(data->get(3).at(0)[0].item<double>() == 3);
  CHECK(adaptdl::map_dataset(TransformedLike())->get(3).at(0)[0].item<double>() == 3);
  CHECK(data->collate({data->get(1), data->get(2)}).at(0).sizes() == at::IntArrayRef({2, 4}));
}

TEST_CASE("data that cannot be used are refused") {
  LinearModel model;
  {
    Training training(kNoData);
    training.add_parameters({{"weight", model.weight}});
    CHECK(says(error_of([&] { training.epochs().begin(); }), "there is no data"));
  }
  {
    Training training(kSettings);
    CHECK(says(error_of([&] { training.use_data(std::make_shared<Counting>()); }),
               "remove data.train"));
  }
  {
    Training training(kNoData);
    training.add_parameters({{"weight", model.weight}});
    training.use_data(std::make_shared<Ragged>());
    auto epochs = training.epochs();
    epochs.begin();
    CHECK(says(error_of([&] { training.batches().begin(); }), "first dimension"));
  }
}

TEST_CASE("wrong orders are errors that say what to do") {
  Training training(kSettings);
  LinearModel model;
  const at::Tensor loss = model.weight.sum();
  CHECK(says(error_of([&] { training.step(loss); }), "loop over epochs()"));
  CHECK(says(error_of([&] { training.validation_batches(); }), "loop over epochs()"));
  CHECK(says(error_of([&] { training.remaining_epochs_until(0); }), "no such epoch"));
  training.add_parameters({{"weight", model.weight}});
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    CHECK(says(error_of([&] { training.step(loss); }), "one loss for each"));
    CHECK(says(error_of([&] { training.validation_batches(); }), "after batches()"));
    CHECK(says(error_of([&] {
                 for ([[maybe_unused]] auto& batch : training.batches()) continue;
               }),
               "step() was not called"));
    break;
  }
}

TEST_CASE("a module's parameters are added, frozen ones left out") {
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3),
                            torch::nn::Linear(3, 1));
  net[0]->as<torch::nn::Linear>()->weight.set_requires_grad(false);
  Training training(kSettings);
  training.add(*net, "net.");
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    for (auto& batch : training.batches()) {
      const at::Tensor frozen = net[0]->as<torch::nn::Linear>()->weight.clone();
      training.step(net->forward(batch.data[0]).square().mean());
      CHECK(at::equal(frozen, net[0]->as<torch::nn::Linear>()->weight));
    }
  }
}

TEST_CASE("a loop knows its newest step") {
  Training training(kSettings);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  CHECK(says(error_of([&] { training.last_step(); }), "loop over epochs()"));
  for ([[maybe_unused]] const int64_t epoch : training.remaining_epochs_until(1)) {
    CHECK(training.last_step().step == 0);
    for (auto& batch : training.batches()) training.step(model.loss(batch));
    const adaptdl::StepInfo last = training.last_step();
    CHECK(last.step == 3);
    CHECK(last.batch == 8);
    CHECK(last.accumulation == 0);
    CHECK(last.learning_rate > 0);
    CHECK(last.loss > 0);
    CHECK(training.epochs_done() == 1);
    training.log("loss", last.loss);
  }
}

TEST_CASE("a backward pass of the body's own is refused, before the step or in place of its loss") {
  Training training(kSettings);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    int steps = 0;
    for (auto& batch : training.batches()) {
      if (++steps < 2) {
        // Neither a gradient that autograd returns nor a pass before the batch is in the way.
        const auto penalty = torch::autograd::grad({model.loss(batch)}, {model.weight});
        training.step(model.loss(batch) + penalty[0].square().sum());
        model.loss(batch).backward();
        continue;
      }
      model.loss(batch).backward();
      const at::Tensor before = model.weight.detach().clone();
      CHECK(says(error_of([&] { training.step(model.loss(batch)); }), "give their sum to step()"));
      CHECK(at::equal(before, model.weight));
      break;
    }
    break;
  }
  LinearModel first, second;
  Training turns(kSettings);
  turns.add_model("first", {{"first", first.weight}});
  turns.add_model("second", {{"second", second.weight}});
  turns.epochs().begin();
  for (auto& batch : turns.batches()) {
    turns.step("first", first.loss(batch));
    (first.loss(batch) + second.loss(batch)).backward();
    CHECK(says(error_of([&] { turns.step("second", second.loss(batch)); }), "give their sum"));
    break;
  }
}

TEST_CASE("with a model's turn that is skipped the step has no loss") {
  Training training(kSettings);
  LinearModel first, second;
  training.add_model("first", {{"first", first.weight}});
  training.add_model("second", {{"second", second.weight}});
  training.epochs().begin();
  for (auto& batch : training.batches()) {
    training.step("first", first.loss(batch) / 0);
    training.step("second", second.loss(batch));
    if (training.last_step().step == 1) break;
  }
  CHECK(std::isnan(training.last_step().loss));
}

TEST_CASE("finish() ends training after the epoch of its body, and the model is saved") {
  Training training(std::regex_replace(kSettings, std::regex("epochs: 2"), "epochs: 5"));
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  int saved = 0;
  training.save_model([&](const std::string& path) {
    ++saved;
    std::ofstream(path) << "model";
  });
  CHECK(says(error_of([&] { training.finish(); }), "loop over epochs()"));
  std::vector<int64_t> epochs;
  for (const int64_t epoch : training.epochs()) {
    epochs.push_back(epoch);
    if (epoch == 1) training.finish();
    for (auto& batch : training.batches()) {
      training.step(model.loss(batch));
      if (training.last_step().step == 4) break;
    }
    CHECK(saved == 0);
  }
  CHECK(epochs == std::vector<int64_t>{0, 1, 1});  // its first body left batches() early
  CHECK(training.last_step().step == 6);
  CHECK(saved == 1);
  std::filesystem::remove("model.pt");
}

TEST_CASE("a loop over validation_batches() that is left early is an error at the next call") {
  Training training(std::regex_replace(kSettings, std::regex("initial: 8"), "initial: 2"));
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  auto epochs = training.epochs();
  auto epoch = epochs.begin();
  for (auto& batch : training.batches()) training.step(model.loss(batch));
  for ([[maybe_unused]] auto& batch : training.validation_batches()) break;
  CHECK(says(error_of([&] { training.validation_batches(); }), "left early"));
  CHECK(says(error_of([&] { training.batches().begin(); }), "left early"));
  CHECK(says(error_of([&] { ++epoch; }), "left early"));
}

TEST_CASE("an optimizer of the program's own needs settings that name it") {
  Training training(kSettings);
  const auto none = [](const adaptdl::OptimizerGroup&) {
    return std::unique_ptr<adaptdl::UpdateRule>();
  };
  CHECK(says(error_of([&] { training.use_optimizer(none); }), "write program"));
}

namespace {

// What `work` returns, in a process that is a copy of this one.
int in_copy(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("two trainings, in a process that has had none" * doctest::skip()) {
  setenv("ADAPTDL_CHECKPOINT_PATH", "/nowhere", 1);
  { const Training first(kSettings); }
  unsetenv("ADAPTDL_CHECKPOINT_PATH");
  if (says(error_of([] { const Training second(kSettings); }), "one training")) _exit(42);
}

TEST_CASE("a process has one training with checkpoints, and none after it") {
  CHECK(in_copy([] {
          execl("/proc/self/exe", "unit_runtime", "--no-skip", "--minimal",
                "--test-case=two trainings*", nullptr);
          return 1;
        }) == 42);
}

TEST_CASE("a program by hand hears that its loop was left before the end") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  {
    Training training(kSettings);
    LinearModel model;
    training.add_parameters({{"weight", model.weight}});
    training.epochs().begin();
  }
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[1]);
  std::string said(1000, '\0');
  const ssize_t count = read(ends[0], said.data(), said.size());
  close(ends[0]);
  CHECK(count > 0);
  CHECK(says(said, "finish() ends training"));
}

TEST_CASE("a schedule without length lasts to the end that the loop names") {
  const std::string one = std::regex_replace(kSettings, std::regex("epochs: 2"), "epochs: 1");
  {
    Training training(one + "schedule: [{kind: cosine}]\n");
    LinearModel model;
    training.add_parameters({{"weight", model.weight}});
    for (const int64_t epoch : training.remaining_epochs_until(2)) {
      for (auto& batch : training.batches()) {
        training.step(model.loss(batch));
        CHECK(training.last_step().learning_rate > 0);
        if (epoch == 1) break;
      }
      if (epoch == 1) break;
    }
    CHECK(training.last_step().step == 4);
  }
  const std::string late = std::regex_replace(kSettings, std::regex("epochs: 2"), "seed: 1") +
                           "schedule: [{kind: warmup, epochs: 2}, {kind: cosine}]\n";
  {
    Training training(late);
    LinearModel model;
    training.add_parameters({{"weight", model.weight}});
    CHECK(says(error_of([&] { training.epochs().begin(); }), "schedule.1.epochs: is missing"));
  }
  Training training(late);
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  CHECK(error_of([&] { training.remaining_epochs_until(3).begin(); }).empty());
}

TEST_CASE("without the rest of a pass the schedule's epochs are still those of the data") {
  const std::string whole =
      std::regex_replace(kSettings, std::regex("data:"), "data:\n  drop_last: true");
  Training training(whole + "schedule: [{kind: cosine}]\n");
  LinearModel model;
  training.add_parameters({{"weight", model.weight}});
  std::vector<double> rates;
  for ([[maybe_unused]] const int64_t epoch : training.epochs()) {
    for (auto& batch : training.batches()) {
      training.step(model.loss(batch));
      rates.push_back(training.last_step().learning_rate);
    }
  }
  REQUIRE(rates.size() == 4);  // two a pass
  CHECK(rates[0] == doctest::Approx(0.1));
  CHECK(rates[2] == doctest::Approx(0.05));
}

TEST_CASE("a program's states are saved and loaded by name") {
  adaptdl::OpenProgram program;
  CHECK(program.state().empty());
  std::string a = "1", b = std::string("\0\xff", 2);
  const auto save = [](std::string& from) { return [&from] { return from; }; };
  const auto load = [](std::string& into) {
    return [&into](const std::string& bytes) { into = bytes; };
  };
  program.add_state("a", save(a), load(a));
  program.add_state("b", save(b), load(b));
  CHECK(says(error_of([&] { program.add_state("a", save(a), load(a)); }), "already"));
  const std::string before = program.state();
  a = b = "other";
  program.load_state(before);
  CHECK(a == "1");
  CHECK(b == std::string("\0\xff", 2));
  program.load_state("{}");
  CHECK(a == "1");
  CHECK(says(error_of([&] { program.load_state("?"); }), "JSON"));
}

TEST_CASE("metrics are sums divided by the count") {
  CHECK(adaptdl::metrics_of({{"loss", 6}, {"count", 4}}) ==
        std::map<std::string, double>{{"loss", 1.5}});
  CHECK(adaptdl::metrics_of({{"loss", 6}}) == std::map<std::string, double>{{"loss", 6}});
  CHECK(says(error_of([] { adaptdl::metrics_of({{"loss", 6}, {"count", 0}}); }), "no samples"));
}

TEST_CASE("an open program has each tensor once") {
  adaptdl::OpenProgram program;
  const at::Tensor shared = at::ones({2});
  program.add_parameters({{"a", shared}});
  program.add_parameters({{"b", shared}, {"c", at::ones({2})}});
  CHECK(program.parameters().size() == 2);
  CHECK(program.parameters().back().name == "c");
  CHECK(!program.can_save());
}
