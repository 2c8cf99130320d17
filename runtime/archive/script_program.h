#pragma once

// train.pt: a TorchScript archive as a Program (adaptdl-train(5)).

#include <memory>
#include <string>

#include "adaptdl/program.h"

namespace torch::jit {
struct Module;
}

namespace adaptdl {

class ScriptProgram : public Program {
 public:
  // Loads the archive and checks the signatures of its methods. Throws Error for a damaged archive,
  // a missing method or a wrong signature.
  ScriptProgram(const std::string& path, at::Device device);
  ~ScriptProgram() override;

  std::vector<NamedTensor> parameters() override;
  std::vector<NamedTensor> buffers() override;
  std::vector<NamedTensor> frozen() override;
  at::Tensor training_step(const std::vector<at::Tensor>& batch) override;
  bool can_validate() const override;
  std::map<std::string, at::Tensor> validation_step(const std::vector<at::Tensor>& batch) override;
  void train(bool on) override;
  void save(const std::string& path) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl
