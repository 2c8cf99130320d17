// ScriptProgram: a train.pt as a Program, and what is refused.

#include "runtime/archive/script_program.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/session/check_tensors.h"
#include "runtime/session/step_failure.h"
#include "runtime/torch_compat.h"
#include "tests/unit/base/expect_error.h"

using namespace adaptdl;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/adaptdl-script-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Writes an archive of these methods with the parameter w and the buffer seen.
std::string archive(const Folder& folder, const std::string& methods, bool trainable = true) {
  torch::jit::Module module("Program");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("w", at::ones({3}).set_requires_grad(trainable), false);
  module.register_buffer("seen", at::zeros({1}));
  module.define(methods);
  const std::string path = folder.file("train.pt");
  module.save(path);
  return path;
}

const char* const kGood = R"(
def training_step(self, batch: List[Tensor]) -> Tensor:
    if self.training:
        self.seen.add_(1)
    return (batch[0] * self.w).mean()

def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
    return {"loss": (batch[0] * self.w).sum(), "count": torch.tensor(batch[0].size(0))}
)";

std::string step(const std::string& signature, const std::string& body) {
  return "def training_step(self, " + signature + ":\n    " + body + "\n";
}

ScriptProgram load(const std::string& path) {
  return ScriptProgram(path, at::kCPU);
}

}  // namespace

TEST_CASE("a program trains, validates and is saved") {
  const Folder folder;
  ScriptProgram program(archive(folder, kGood), at::kCPU);
  REQUIRE(program.parameters().size() == 1);
  CHECK(program.parameters()[0].name == "w");
  REQUIRE(program.buffers().size() == 1);
  program.train(true);
  const at::Tensor loss = program.training_step({at::ones({4, 3})});
  CHECK(loss.item<float>() == 1.0f);
  loss.backward();
  CHECK(program.parameters()[0].tensor.grad().defined());
  CHECK(program.buffers()[0].tensor.item<float>() == 1.0f);
  REQUIRE(program.can_validate());
  const auto sums = program.validation_step({at::ones({4, 3})});
  CHECK(sums.at("loss").item<float>() == 12.0f);
  CHECK(sums.at("count").item<int64_t>() == 4);

  {
    const at::NoGradGuard no_grad;
    program.parameters()[0].tensor.fill_(5);
  }
  program.save(folder.file("model.pt"));
  auto model = torch::jit::load(folder.file("model.pt"));
  CHECK_FALSE(model.is_training());
  CHECK(model.attr("w").toTensor().sum().item<float>() == 15.0f);
  program.train(true);
  program.training_step({at::ones({4, 3})});
  CHECK(program.buffers()[0].tensor.item<float>() == 2.0f);
}

TEST_CASE("a model that cannot be written is an Error") {
  const Folder folder;
  ScriptProgram program(archive(folder, kGood), at::kCPU);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{1024, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_ERROR(program.save(folder.file("model.pt")), "model.pt: cannot write");
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
}

TEST_CASE("what is no archive is refused") {
  const Folder folder;
  CHECK_ERROR(load(folder.file("none.pt")), "none.pt");
  std::ofstream(folder.file("text.pt")) << "hello";
  CHECK_ERROR(load(folder.file("text.pt")), "not a TorchScript archive");
  const std::string good = archive(folder, kGood);
  for (const double part : {0.1, 0.5, 0.9}) {
    const std::string cut = folder.file("cut.pt");
    std::filesystem::copy_file(good, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(
        cut, static_cast<uintmax_t>(part * static_cast<double>(std::filesystem::file_size(good))));
    const std::string message = error_of([&] { load(cut); });
    CHECK(contains(message, "cut.pt"));
    CHECK_FALSE(contains(message, "\n"));
  }
}

TEST_CASE("missing and wrong methods are refused") {
  const Folder folder;
  CHECK_ERROR(load(archive(folder, "def forward(self, x: Tensor) -> Tensor:\n    return x\n")),
              "has no method training_step");
  CHECK_ERROR(load(archive(folder, step("x: Tensor) -> Tensor", "return x.sum()"))), "(Tensor)");
  CHECK_ERROR(load(archive(folder, step("x: List[Tensor], y: int) -> Tensor", "return x[0]"))),
              "(Tensor[], int)");
  CHECK_ERROR(load(archive(folder, kGood, /*trainable=*/false)), "no parameter");
}

TEST_CASE("memory of a device that ran out is known by the text, also of its libraries") {
  for (const char* text :
       {"CUDA out of memory. Tried to allocate 2 GiB",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"}) {
    CHECK(out_of_memory(std::runtime_error(text)));
  }
  CHECK_FALSE(out_of_memory(std::runtime_error("CUDA error: device-side assert triggered")));
  CHECK_FALSE(out_of_memory(std::runtime_error("cuDNN error: CUDNN_STATUS_BAD_PARAM")));
}

TEST_CASE("wrong results are refused") {
  const Folder folder;
  const std::vector<at::Tensor> batch = {at::ones({2, 3})};
  auto number = load(archive(folder, step("batch: List[Tensor]) -> float", "return 1.0")));
  CHECK_ERROR(number.training_step(batch), "it returned float");
  auto throws = load(archive(
      folder, step("batch: List[Tensor]) -> Tensor", "return batch[0].view([7]) * self.w")));
  const std::string why = error_of([&] { throws.training_step(batch); });
  CHECK(contains(why, "training_step failed: shape '[7]' is invalid"));
  CHECK_FALSE(contains(why, "\n"));
  // CUDA's errors have this form.
  auto lines = load(archive(folder, step("batch: List[Tensor]) -> Tensor",
                                         "assert batch[0].dim() == 9, 'CUDA error: out of memory"
                                         "\\nCompile with `TORCH_USE_CUDA_DSA`'\n"
                                         "    return self.w.sum()")));
  try {
    lines.training_step(batch);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(
        contains(error.what(), "training_step failed: AssertionError: CUDA error: out of memory"));
    CHECK_FALSE(contains(error.what(), "\n"));
    CHECK(out_of_memory(error));
  }
  auto few =
      load(archive(folder, step("batch: List[Tensor]) -> Tensor", "return batch[3] * self.w")));
  CHECK_ERROR(few.training_step(batch), "training_step failed");

  const std::string good = step("batch: List[Tensor]) -> Tensor", "return self.w.sum()");
  const auto validating = [&](const std::string& type, const std::string& body) {
    return load(archive(folder, good + "\ndef validation_step(self, batch: List[Tensor]) -> " +
                                    type + ":\n    " + body + "\n"));
  };
  auto tensor = validating("Tensor", "return batch[0]");
  CHECK_ERROR(tensor.validation_step(batch), "Dict[str, Tensor]");
  auto vectors = validating("Dict[str, Tensor]", "return {\"loss\": batch[0]}");
  CHECK_ERROR(vectors.validation_step(batch), "scalar");
  auto no_count = validating("Dict[str, Tensor]", "return {\"loss\": batch[0].sum()}");
  CHECK_ERROR(no_count.validation_step(batch), "count");
}

TEST_CASE("shared weights are one parameter") {
  const Folder folder;
  const at::Tensor weight = at::ones({3}).set_requires_grad(true), seen = at::zeros({1});
  torch::jit::Module encoder("Encoder"), decoder("Decoder"), module("Program");
  for (auto* part : {&encoder, &decoder}) {
    part->register_parameter("weight", weight, false);
    part->register_buffer("seen", seen);
  }
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_module("encoder", encoder);
  module.register_module("decoder", decoder);
  module.define(R"(
def training_step(self, batch: List[Tensor]) -> Tensor:
    return (batch[0] * self.encoder.weight + self.decoder.weight).mean()
)");
  module.save(folder.file("shared.pt"));
  ScriptProgram program(folder.file("shared.pt"), at::kCPU);
  REQUIRE(program.parameters().size() == 1);
  CHECK(program.parameters()[0].name == "encoder.weight");
  CHECK(program.buffers().size() == 1);
  check_tensors(program);
}

TEST_CASE("on a CPU each layer's gradients come by themselves, to be averaged early") {
  const Folder folder;
  torch::jit::Module module("Program");
  for (const char* layer : {"a", "b", "c"})
    module.register_parameter(layer, at::ones({3, 3}).set_requires_grad(true), false);
  module.define(R"(
def training_step(self, batch: List[Tensor]) -> Tensor:
    x = torch.relu(torch.mm(batch[0], self.a))
    x = torch.relu(torch.mm(x, self.b))
    return torch.mm(x, self.c).mean()
)");
  module.save(folder.file("train.pt"));
  ScriptProgram program(folder.file("train.pt"), at::kCPU);
  at::Tensor loss;
  // TorchScript's executor would optimize after a step or two.
  for (int i = 0; i < 4; ++i) loss = program.training_step({at::ones({2, 3})});

  std::set<torch::autograd::Node*> seen{loss.grad_fn().get()}, before_parameters;
  std::vector<torch::autograd::Node*> next(seen.begin(), seen.end());
  while (!next.empty()) {
    torch::autograd::Node* node = next.back();
    next.pop_back();
    for (const auto& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      if (edge.function->num_outputs() == 0) before_parameters.insert(node);
      if (seen.insert(edge.function.get()).second) next.push_back(edge.function.get());
    }
  }
  CHECK(before_parameters.size() == 3);
}

TEST_CASE("a program's tensors are checked") {
  struct Odd : Program {
    std::vector<NamedTensor> p, b;
    std::vector<NamedTensor> parameters() override { return p; }
    std::vector<NamedTensor> buffers() override { return b; }
    at::Tensor training_step(const std::vector<at::Tensor>&) override { return {}; }
    void train(bool) override {}
    void save(const std::string&) override {}
  };
  const at::Tensor leaf = at::ones({3}).set_requires_grad(true);
  const auto refusal = [](std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers) {
    Odd odd;
    odd.p = std::move(parameters);
    odd.b = std::move(buffers);
    return error_of([&] { check_tensors(odd); });
  };
  Odd good;
  good.p = {{"w", leaf}};
  good.b = {{"w", at::ones({1}, at::kLong)}};
  check_tensors(good);
  CHECK(contains(refusal({{"w", leaf}, {"w", leaf.detach()}}, {}), "two parameters called w"));
  CHECK(
      contains(refusal({{"a", leaf}, {"b", leaf}}, {}), "parameters a and b are the same tensor"));
  CHECK(distinct({{"a", leaf}, {"b", leaf}}).size() == 1);
  CHECK(contains(refusal({{"w", at::ones({3})}}, {}), "parameter w is not"));
  CHECK(contains(refusal({{"w", leaf * 2}}, {}), "parameter w is not"));
  CHECK(contains(refusal({{"", leaf}}, {}), "1 to 1000 bytes"));
  CHECK(contains(refusal({{"w", leaf}}, {{"b", at::Tensor()}}), "undefined"));
  CHECK(contains(refusal({{"w", leaf}}, {{"b", at::ones({3}).to_sparse()}}), "sparse"));
}

TEST_CASE("what is neither trained nor a buffer must not change") {
  const Folder folder;
  torch::jit::Module module("Program");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("w", at::ones({3}).set_requires_grad(true), false);
  module.register_parameter("slow", at::zeros({3}), false);
  module.define(R"(
def training_step(self, batch: List[Tensor]) -> Tensor:
    self.slow.detach().mul_(0.9).add_(0.1 * self.w.detach())
    return (batch[0] * self.w).mean()
)");
  module.save(folder.file("slow.pt"));
  ScriptProgram program(folder.file("slow.pt"), at::kCPU);
  CHECK_ERROR(program.training_step({at::ones({2, 3})}), "changes slow, which is not a buffer");
}

TEST_CASE("frozen parameters and constants are named, and may change between steps") {
  const Folder folder;
  torch::jit::Module module("Program");
  module.register_attribute("training", c10::BoolType::get(), true);
  const at::Tensor w = at::ones({3}).set_requires_grad(true);
  module.register_parameter("w", w, false);
  module.register_attribute("view", c10::TensorType::get(), w.detach().view({1, 3}));
  module.register_parameter("conv", at::ones({3}), false);
  module.register_attribute("scale", c10::TensorType::get(), at::ones({1}));
  module.register_buffer("seen", at::zeros({1}));
  module.define(R"(
def training_step(self, batch: List[Tensor]) -> Tensor:
    return (batch[0] * self.w * self.conv * self.scale).mean()

def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
    self.scale.add_(1)
    return {"count": torch.tensor(batch[0].size(0))}
)");
  module.save(folder.file("frozen.pt"));
  ScriptProgram program(folder.file("frozen.pt"), at::kCPU);
  check_tensors(program);
  std::map<std::string, at::Tensor> frozen;
  for (const auto& [name, tensor] : program.frozen()) frozen[name] = tensor;
  REQUIRE(frozen.size() == 2);
  CHECK(frozen.contains("scale"));  // and not "view", which is trained with w
  const std::vector<at::Tensor> batch = {at::ones({2, 3})};
  CHECK(program.training_step(batch).item<float>() == 1.0f);
  frozen.at("conv").detach().copy_(at::full({3}, 4.0f));  // as a file of weights would
  CHECK(program.training_step(batch).item<float>() == 4.0f);
  CHECK_ERROR(program.validation_step(batch), "validation_step changes scale");
  program.save(folder.file("model.pt"));
  CHECK(torch::jit::load(folder.file("model.pt")).attr("conv").toTensor()[0].item<float>() == 4.0f);
}

TEST_CASE("a saved model has the files that its archive was saved with") {
  const Folder folder;
  torch::jit::Module module = torch::jit::load(archive(folder, kGood));
  module.save(folder.file("extras.pt"),
              {{"adaptdl.yaml", "batch: {initial: 4}"}, {"text/labels.txt", "cat\ndog\n"}});
  ScriptProgram program(folder.file("extras.pt"), at::kCPU);
  program.save(folder.file("model.pt"));
  torch::jit::ExtraFilesMap files{{"adaptdl.yaml", ""}, {"text/labels.txt", ""}};
  torch::jit::load(folder.file("model.pt"), at::kCPU, files);
  CHECK(files["adaptdl.yaml"] == "batch: {initial: 4}");
  CHECK(files["text/labels.txt"] == "cat\ndog\n");
}
