// A step that is undone leaves the program's buffers as they were.

#include "runtime/session/saved_buffers.h"

#include <cmath>
#include <doctest/doctest.h>

#include "runtime/torch_compat.h"

namespace {

using namespace adaptdl;

// Buffers that the test changes itself.
class Buffers : public Program {
 public:
  at::Tensor mean = at::zeros({3}), count = at::zeros({}, at::kLong), table = at::ones({4});

  std::vector<NamedTensor> parameters() override { return {}; }
  std::vector<NamedTensor> buffers() override {
    return {{"mean", mean}, {"count", count}, {"table", table}};
  }
  at::Tensor training_step(const std::vector<at::Tensor>&) override {
    mean.add_(1.0);
    count = count + 1;  // another tensor
    return {};
  }
  void train(bool) override {}
  void save(const std::string&) override {}
  bool are(double value) const {
    return at::equal(mean, at::full({3}, value)) && count.item<double>() == value;
  }
};

// Normalises its input over the batch, which does not raise the count of the buffers' changes.
class Normalising : public Program {
 public:
  explicit Normalising(int64_t channels)
      : mean(at::zeros({channels})), var(at::ones({channels})), table(at::ones({channels})) {}

  at::Tensor mean, var, table;

  std::vector<NamedTensor> parameters() override { return {}; }
  std::vector<NamedTensor> buffers() override {
    return {{"mean", mean}, {"var", var}, {"table", table}};
  }
  at::Tensor training_step(const std::vector<at::Tensor>& batch) override {
    return at::batch_norm(batch[0], {}, {}, mean, var, true, 0.1, 1e-5, false) + table;
  }
  void train(bool) override {}
  void save(const std::string&) override {}
};

}  // namespace

TEST_CASE("an undone step leaves no trace, whether it changes a buffer in place or replaces it") {
  Buffers program;
  SavedBuffers saved(program);
  saved.restore();
  saved.keep();
  for (int kept = 0; kept < 5; ++kept) {
    for (int undone = 0; undone < 2; ++undone) {
      saved.save();
      program.training_step({});
      program.mean.fill_(NAN);
      saved.restore();
      CHECK(program.are(kept));
    }
    saved.save();
    program.training_step({});
    saved.keep();
    CHECK(program.are(kept + 1));
    saved.restore();  // of nothing
    CHECK(program.are(kept + 1));
  }
  // A step that was neither kept nor undone is undone by the next.
  saved.save();
  program.training_step({});
  saved.save();
  CHECK(program.are(5));
}

TEST_CASE("a buffer that begins to change late is saved from then on") {
  for (const int64_t size : {4, 100'000}) {
    Buffers program;
    program.table = at::ones({size});
    SavedBuffers saved(program);
    for (int i = 0; i < 2 * SavedBuffers::kStill; ++i) {
      saved.save();
      program.training_step({});
      if (i == 2 * SavedBuffers::kStill - 1) program.table.add_(1);
      saved.keep();
    }
    saved.save();
    program.table.add_(1);
    saved.restore();
    CHECK(at::equal(program.table, at::full({size}, 2.0)));
  }
}

TEST_CASE("an undone step leaves no trace in the statistics of normalisation over a batch") {
  for (const int64_t channels : {3, 100'000}) {
    Normalising program(channels), without(channels);
    SavedBuffers saved(program);
    for (int i = 0; i < 3 * SavedBuffers::kStill; ++i) {
      const at::Tensor batch = at::randn({4, channels});
      const int64_t version = without.mean._version();
      without.training_step({batch});
      CHECK(without.mean._version() == version);  // else this tests nothing
      saved.save();
      program.training_step({batch * NAN});
      CHECK(program.mean.isnan().all().item<bool>());
      saved.restore();
      saved.save();
      program.training_step({batch});
      saved.keep();
      CHECK(at::equal(program.mean, without.mean));
      CHECK(at::equal(program.var, without.var));
    }
  }
}

TEST_CASE("a step that is undone leaves the program's own state as it was") {
  class Counter : public Buffers {
   public:
    std::string state() override { return std::to_string(steps); }
    void load_state(const std::string& bytes) override { steps = std::stoi(bytes); }
    int steps = 0;
  } program;
  SavedBuffers saved(program);
  saved.save();
  program.steps = 1;
  saved.keep();
  CHECK(program.steps == 1);
  saved.save();
  program.steps = 2;
  saved.restore();
  CHECK(program.steps == 1);
  saved.restore();
  CHECK(program.steps == 1);
}
