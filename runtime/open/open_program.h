#pragma once

// The model of an open loop as the rest of the runtime sees it: tensors and functions that the
// user's main has registered.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptdl/program.h"

namespace adaptdl {

class OpenProgram : public Program {
 public:
  std::vector<NamedTensor> parameters() override { return parameters_; }
  std::vector<NamedTensor> buffers() override { return buffers_; }
  // The user's loop computes the loss and validates.
  at::Tensor training_step(const std::vector<at::Tensor>& batch) override;
  bool can_validate() const override { return true; }
  void train(bool /*on*/) override {}
  std::unique_ptr<UpdateRule> update_rule(const OptimizerGroup& group) override;
  std::optional<double> lr_factor(const BatchScale& at) override;
  std::string state() override;
  void load_state(const std::string& bytes) override;
  void save(const std::string& path) override { save_(path); }

  bool can_save() const { return save_ != nullptr; }
  // How many parameters each model has, in order; empty if there are not several. Throws Error if
  // some parameters belong to no model.
  std::vector<size_t> models() const;
  // Of add_model(), from 0. Throws Error for an unknown name.
  size_t model(const std::string& name) const;

  // Leave out tensors that are there already (shared weights).
  void add_parameters(const std::vector<NamedTensor>& parameters);
  void add_buffers(const std::vector<NamedTensor>& buffers);
  // The parameters of one of several models. Throws Error if there is one of that name, or if it
  // has none.
  void add_model(const std::string& name, const std::vector<NamedTensor>& parameters);
  // Throws Error if there is one of that name.
  void add_state(const std::string& name, std::function<std::string()> save,
                 std::function<void(const std::string&)> load);
  void save_with(std::function<void(const std::string& path)> save) { save_ = std::move(save); }
  void scale_by(std::function<double(const BatchScale&)> rule) { scaling_rule_ = std::move(rule); }
  void rule_from(std::function<std::unique_ptr<UpdateRule>(const OptimizerGroup&)> make) {
    make_rule_ = std::move(make);
  }

 private:
  struct State {
    std::function<std::string()> save;
    std::function<void(const std::string&)> load;
  };
  std::map<std::string, State> states_;
  struct Model {
    std::string name;
    size_t parameters = 0;
  };
  std::vector<Model> models_;
  std::vector<NamedTensor> parameters_, buffers_;
  std::function<void(const std::string&)> save_;
  std::function<double(const BatchScale&)> scaling_rule_;
  std::function<std::unique_ptr<UpdateRule>(const OptimizerGroup&)> make_rule_;
};

}  // namespace adaptdl
