// Writes the training archives of the elastic tests, which then need no Python with torch:
//   elastic_archives DESCRIPTION.json
// DESCRIPTION.json: [{path, settings (text of adaptdl.yaml; null: none), code (methods of a
// TorchScript class), parameters: {name: shape}, buffers: {name: shape}, values: {name: number as
// text}}]. Parameters are drawn from one seed, buffers are zero or that value.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

namespace {

using nlohmann::json;

void write(const json& archive) {
  torch::jit::Module module("Program");
  module.register_attribute("training", c10::BoolType::get(), true);
  for (const auto& [name, shape] : archive.at("parameters").items()) {
    const auto sizes = shape.get<std::vector<int64_t>>();
    const double bound = 1.0 / std::sqrt(static_cast<double>(sizes.back()));
    const at::Tensor values = at::empty(sizes).uniform_(-bound, bound);
    module.register_parameter(name, values.set_requires_grad(true), false);
  }
  const json values = archive.value("values", json::object());
  const json buffers = archive.value("buffers", json::object());
  for (const auto& [name, shape] : buffers.items()) {
    const double value = std::stod(values.value(name, "0"));
    module.register_buffer(name, at::full(shape.get<std::vector<int64_t>>(), value));
  }
  module.define(archive.at("code").get<std::string>());
  torch::jit::ExtraFilesMap extra;
  if (!archive.at("settings").is_null()) {
    extra["adaptdl.yaml"] = archive.at("settings").get<std::string>();
  }
  module.save(archive.at("path").get<std::string>(), extra);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DESCRIPTION.json\n", argv[0]);
    return 2;
  }
  try {
    at::manual_seed(1);
    std::ifstream file(argv[1]);
    for (const auto& archive : json::parse(file)) write(archive);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
