#include "runtime/open/open_program.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/formats/base64.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

void append(std::vector<NamedTensor>& all, const std::vector<NamedTensor>& more) {
  all.insert(all.end(), more.begin(), more.end());
  all = distinct(all);
}

}  // namespace

at::Tensor OpenProgram::training_step(const std::vector<at::Tensor>&) {
  fail("this program has its own loop; the library cannot compute its loss");
}

std::unique_ptr<UpdateRule> OpenProgram::update_rule(const OptimizerGroup& group) {
  return make_rule_ ? make_rule_(group) : nullptr;
}

std::optional<double> OpenProgram::lr_factor(const BatchScale& at) {
  if (!scaling_rule_) return {};
  return scaling_rule_(at);
}

void OpenProgram::add_state(const std::string& name, std::function<std::string()> save,
                            std::function<void(const std::string&)> load) {
  const auto [at, added] = states_.emplace(name, State{std::move(save), std::move(load)});
  if (!added) fail("add_state(): there is a state called \"{}\" already", name);
}

// {"NAME": "BASE64"}
std::string OpenProgram::state() {
  if (states_.empty()) return {};
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, state] : states_) all[name] = to_base64(state.save());
  return all.dump();
}

// A checkpoint may be of a program that had others.
void OpenProgram::load_state(const std::string& bytes) {
  const auto all = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) fail("the program's saved state is no object of JSON");
  for (const auto& [name, state] : states_) {
    const auto saved = all.find(name);
    if (saved == all.end()) continue;
    state.load(from_base64(saved->get<std::string>(), "the state " + name));
  }
}

void OpenProgram::add_parameters(const std::vector<NamedTensor>& parameters) {
  append(parameters_, parameters);
}

void OpenProgram::add_model(const std::string& name, const std::vector<NamedTensor>& parameters) {
  for (const Model& model : models_) {
    if (model.name == name) fail("add_model(): there is a model called \"{}\" already", name);
  }
  const size_t before = parameters_.size();
  append(parameters_, parameters);
  if (parameters_.size() == before) {
    fail("add_model(): \"{}\" has no parameters to train that no other model has", name);
  }
  models_.push_back({name, parameters_.size() - before});
}

std::vector<size_t> OpenProgram::models() const {
  std::vector<size_t> counts;
  size_t sum = 0;
  for (const Model& model : models_) {
    counts.push_back(model.parameters);
    sum += model.parameters;
  }
  if (!counts.empty() && sum != parameters_.size()) {
    fail("some parameters belong to no model: give all of them to add_model(), or none");
  }
  return counts;
}

size_t OpenProgram::model(const std::string& name) const {
  for (size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].name == name) return i;
  }
  fail("step(): there is no model called \"{}\"; add_model() registers one", name);
}

void OpenProgram::add_buffers(const std::vector<NamedTensor>& buffers) {
  append(buffers_, buffers);
}

}  // namespace adaptdl
