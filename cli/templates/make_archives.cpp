// Writes training archives: make_archives OUT_DIR TEMPLATE_DIR NAME...
//
// digits, chars, linear: the examples of `adaptdl init`, from TEMPLATE_DIR/NAME/model.py, whose
// methods are TorchScript and whose parameters are declared one a line, and from adaptdl.yaml
// beside it; Python is not needed. The result is what `python3 model.py` writes.
// mlp, conv, large: models for benchmarks and tests, on synthetic data.
// Each becomes OUT_DIR/NAME.pt.
//
// make_archives --compare TEMPLATE_DIR NAME...: whether TEMPLATE_DIR/NAME/train.pt is still what
// its model.py and adaptdl.yaml say, up to the values of the parameters; exit 1 if not.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

namespace {

using torch::jit::Module;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

// Initialized like PyTorch's layers: within 1 / sqrt(inputs) of zero.
at::Tensor uniform(int64_t inputs, at::IntArrayRef shape) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
  return at::empty(shape).uniform_(-bound, bound);
}

Module empty_module(const std::string& name) {
  Module module(name);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

std::vector<int64_t> numbers(const std::string& list) {
  std::vector<int64_t> result;
  std::istringstream stream(list);
  for (std::string number; std::getline(stream, number, ',');) result.push_back(std::stoll(number));
  return result;
}

void add_parameter(Module& module, const std::string& name, const at::Tensor& values) {
  module.register_parameter(name, values.detach().set_requires_grad(true), false);
}

// The class in a template's model.py as a TorchScript module.
Module from_python(const std::string& source) {
  const std::regex head(R"(^class (\w+)\(nn\.Module\):$)");
  const std::regex drawn(R"(^        self\.(\w+) = uniform\(([\d, ]+)\)$)");
  const std::regex filled(
      R"(^        self\.(\w+) = nn\.Parameter\(torch\.(ones|zeros)\(([\d, ]+)\)\)$)");
  std::istringstream lines(source);
  std::string line, methods;
  std::smatch match;
  while (std::getline(lines, line) && !std::regex_match(line, match, head)) {
  }
  if (match.empty()) throw std::runtime_error("no class in model.py");
  Module module = empty_module(match[1]);
  bool in_methods = false;
  while (std::getline(lines, line)) {
    if (!line.empty() && line[0] != ' ') break;
    if (std::regex_match(line, match, drawn)) {
      auto shape = numbers(match[2]);
      const int64_t inputs = shape.front();
      shape.erase(shape.begin());
      add_parameter(module, match[1], uniform(inputs, shape));
    } else if (std::regex_match(line, match, filled)) {
      const auto shape = numbers(match[3]);
      add_parameter(module, match[1], match[2] == "ones" ? at::ones(shape) : at::zeros(shape));
    } else if (line.find("self.") == 8 && line.find(" = ") != std::string::npos && !in_methods) {
      throw std::runtime_error("this line of __init__ is not understood: " + line);
    } else if (line.rfind("    def ", 0) == 0) {
      in_methods = line.find("__init__") == std::string::npos;
    }
    const bool noise = line.rfind("    @", 0) == 0 || line.rfind("    #", 0) == 0;
    if (in_methods && !noise && line.size() > 4) methods += line.substr(4) + "\n";
  }
  module.define(methods);
  return module;
}

std::string synthetic_settings(const std::string& name, const std::string& shape, int classes,
                               int batch) {
  return "format: 1\nname: " + name + "\nepochs: 1000\ndata:\n  train:\n" +
         "    - {format: synthetic, samples: 65536, shape: " + shape + ", seed: 1}\n" +
         "    - {format: synthetic, samples: 65536, classes: " + std::to_string(classes) +
         ", seed: 2}\n" + "batch: {initial: " + std::to_string(batch) +
         "}\noptimizer: {kind: sgd, lr: 0.01}\n";
}

const char* const kSteps = R"(
def training_step(self, batch: List[Tensor]) -> Tensor:
    return torch.cross_entropy_loss(self.forward(batch[0]), batch[1])

def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
    logits = self.forward(batch[0])
    loss = torch.cross_entropy_loss(logits, batch[1], None, 2)
    correct = (logits.argmax(1) == batch[1]).sum()
    return {"loss": loss, "accuracy": correct, "count": torch.tensor(batch[1].size(0))}
)";

// `layers` linear layers of width x width with ReLU between.
Module linear_stack(const std::string& name, int layers, int64_t width) {
  Module module = empty_module(name);
  std::string code = "def forward(self, x: Tensor) -> Tensor:\n";
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    add_parameter(module, layer + "_weight", uniform(width, {width, width}));
    add_parameter(module, layer + "_bias", uniform(width, {width}));
    if (i > 0) code += "    x = torch.relu(x)\n";
    code += "    x = torch.linear(x, self." + layer + "_weight, self." + layer + "_bias)\n";
  }
  module.define(code + "    return x\n" + kSteps);
  return module;
}

Module conv_net() {
  Module module = empty_module("Conv");
  const auto add = [&](const std::string& name, int64_t inputs, at::IntArrayRef weight) {
    add_parameter(module, name + "_weight", uniform(inputs, weight));
    add_parameter(module, name + "_bias", uniform(inputs, {weight[0]}));
  };
  add("conv1", 9, {16, 1, 3, 3});
  add("conv2", 144, {32, 16, 3, 3});
  add("output", 1568, {10, 1568});
  module.define(std::string(R"(
def forward(self, x: Tensor) -> Tensor:
    x = torch.conv2d(x, self.conv1_weight, self.conv1_bias, padding=[1, 1])
    x = torch.max_pool2d(torch.relu(x), [2, 2])
    x = torch.conv2d(x, self.conv2_weight, self.conv2_bias, padding=[1, 1])
    x = torch.max_pool2d(torch.relu(x), [2, 2])
    return torch.linear(torch.flatten(x, 1), self.output_weight, self.output_bias)
)") + kSteps);
  return module;
}

struct Archive {
  Module module;
  std::string settings;
};

Archive make(const std::string& name, const std::string& templates) {
  at::manual_seed(1);
  if (name == "mlp") {
    return {linear_stack("Mlp", 20, 256), synthetic_settings(name, "[256]", 256, 128)};
  }
  if (name == "large") {
    return {linear_stack("Large", 4, 2500), synthetic_settings(name, "[2500]", 2500, 16)};
  }
  if (name == "conv") return {conv_net(), synthetic_settings(name, "[1, 28, 28]", 10, 128)};
  const std::string folder = templates + "/" + name;
  return {from_python(read(folder + "/model.py")), read(folder + "/adaptdl.yaml")};
}

// A description of the archive in `stream`: methods as text, names and shapes of parameters,
// settings.
std::string described(std::istream& stream) {
  torch::jit::ExtraFilesMap extra{{"adaptdl.yaml", ""}};
  const Module module = torch::jit::load(stream, std::nullopt, extra);
  std::ostringstream text;
  text << extra["adaptdl.yaml"] << module.dump_to_str(true, false, false);
  for (const auto& parameter : module.named_parameters()) {
    text << parameter.name << parameter.value.sizes() << parameter.value.requires_grad() << '\n';
  }
  return text.str();
}

bool is_current(const std::string& name, const std::string& templates) {
  const Archive archive = make(name, templates);
  std::stringstream fresh;
  archive.module.save(fresh, {{"adaptdl.yaml", archive.settings}});
  const std::string path = templates + "/" + name + "/train.pt";
  std::ifstream stored(path, std::ios::binary);
  if (described(fresh) == described(stored)) return true;
  std::fprintf(stderr, "%s does not match model.py and adaptdl.yaml: run ninja template-archives\n",
               path.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s OUT_DIR|--compare TEMPLATE_DIR NAME...\n", argv[0]);
    return 2;
  }
  const std::string out = argv[1], templates = argv[2];
  bool good = true;
  try {
    for (int i = 3; i < argc; ++i) {
      const std::string name = argv[i];
      if (out == "--compare") {
        good &= is_current(name, templates);
        continue;
      }
      const Archive archive = make(name, templates);
      archive.module.save(out + "/" + name + ".pt", {{"adaptdl.yaml", archive.settings}});
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_archives: %s\n", error.what());
    return 1;
  }
  return good ? 0 : 1;
}
