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
  Buffers program;
  SavedBuffers saved(program);
  for (int i = 0; i < 3; ++i) {
    saved.save();
    program.training_step({});
    if (i == 2) program.table.add_(1);
    saved.keep();
  }
  saved.save();
  program.table.add_(1);
  saved.restore();
  CHECK(at::equal(program.table, at::full({4}, 2.0)));
}
