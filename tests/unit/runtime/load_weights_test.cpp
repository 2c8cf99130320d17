// What a program gets from a file of weights.

#include "runtime/session/load_weights.h"

#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/job/weights_export.h"
#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"

namespace load_weights_test {

using namespace adaptdl;

namespace {

class Model : public Program {
 public:
  std::vector<NamedTensor> trained{{"w", at::zeros({2}).set_requires_grad(true)}};
  std::vector<NamedTensor> running, constants;

  std::vector<NamedTensor> parameters() override { return trained; }
  std::vector<NamedTensor> buffers() override { return running; }
  std::vector<NamedTensor> frozen() override { return constants; }
  at::Tensor training_step(const std::vector<at::Tensor>&) override { return {}; }
  void train(bool) override {}
  void save(const std::string&) override {}
};

// Writes the tensors, which must be contiguous, of these types.
void write(const std::string& path, const std::vector<NamedTensor>& tensors,
           const std::vector<std::string>& dtypes) {
  WeightsFile weights;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].tensor;
    StoredTensor stored;
    stored.name = tensors[i].name;
    stored.dtype = dtypes[i];
    stored.shape = tensor.sizes().vec();
    stored.strides = dense_strides(stored.shape);
    stored.element_bytes = tensor.element_size();
    stored.bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
    weights.tensors.push_back(stored);
  }
  export_weights(weights, weights_format(path), path);
}

}  // namespace

TEST_CASE("buffers of every type that files have are loaded") {
  const TemporaryDirectory folder;
  Model model;
  model.running = {{"turn", at::zeros({2}, at::kComplexFloat)},
                   {"small", at::zeros({2}, at::kUInt16)},
                   {"large", at::zeros({2}, at::kUInt64)},
                   {"eight", at::empty({2}, at::kFloat8_e5m2)}};
  const at::Tensor w = at::ones({2}), turn = at::full({2}, c10::complex<float>(1, 2));
  const at::Tensor small = at::full({2}, 60000, at::kUInt16);
  const at::Tensor large = at::full({2}, 7, at::kUInt64);
  write(folder.file("w.safetensors"),
        {{"w", w}, {"turn", turn}, {"small", small}, {"large", large}},
        {"float32", "complex64", "uint16", "uint64"});
  const LoadedWeights loaded = load_weights(model, {"w.safetensors", {}, {}}, folder.path());
  CHECK(loaded.tensors == 4);
  CHECK(loaded.kept == std::vector<std::string>{"eight"});
  CHECK(at::equal(model.trained[0].tensor, w));
  CHECK(at::equal(model.running[0].tensor, turn));
  CHECK(at::equal(model.running[1].tensor, small));
  CHECK(at::equal(model.running[2].tensor, large));

  write(folder.file("w.pt"), {{"w", w}, {"turn", turn}}, {"float32", "complex64"});
  model.running = {{"turn", at::zeros({2}, at::kComplexFloat)}};
  CHECK(load_weights(model, {"w.pt", {}, {}}, folder.path()).kept.empty());
  CHECK(at::equal(model.running[0].tensor, turn));
}

TEST_CASE("frozen tensors are loaded, too, unless the file lacks them") {
  const TemporaryDirectory folder;
  Model model;
  model.constants = {{"conv", at::zeros({3})}, {"scale", at::zeros({1})}};
  const at::Tensor w = at::ones({2}), conv = at::full({3}, 5.0), other = at::ones({4});
  write(folder.file("w.pt"), {{"w", w}, {"conv", conv}}, {"float32", "float32"});
  const LoadedWeights loaded = load_weights(model, {"w.pt", {}, {}}, folder.path());
  CHECK(loaded.tensors == 2);
  CHECK(loaded.frozen == std::vector<std::string>{"conv"});
  CHECK(loaded.kept.empty());
  CHECK(loaded.skipped.empty());
  CHECK(at::equal(model.constants[0].tensor, conv));

  write(folder.file("other.pt"), {{"w", w}, {"conv", other}}, {"float32", "float32"});
  CHECK_ERROR(load_weights(model, {"other.pt", {}, {}}, folder.path()), "conv is float32 [3]");
  const LoadedWeights kept = load_weights(model, {"other.pt", {}, {"conv"}}, folder.path());
  CHECK(kept.frozen.empty());
  CHECK(kept.kept == std::vector<std::string>{"conv"});
}

}  // namespace load_weights_test
