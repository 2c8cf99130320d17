#include "runtime/archive/script_program.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <set>
#include <utility>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/job/training_archive.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

using torch::jit::Method;
using torch::jit::Module;

// LibTorch's messages contain stack traces; the first line is the reason.
std::string first_line_of(const std::exception& error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// The reason for a failure in a method, in one line. TorchScript prints the failing source first
// and the reason last, of which CUDA's have more lines: how to find the cause. The full text goes
// to the log.
std::string cause(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  if (end == text.npos) return "no reason given";
  if (!text.starts_with("The following operation failed")) return text.substr(0, text.find('\n'));
  log_warning("{}", text);
  const std::string noise = "\nRuntimeError: ";
  const size_t named = text.rfind(noise);
  size_t start =
      named == text.npos ? text.npos : text.find_first_not_of(" \n", named + noise.size());
  if (start == text.npos) start = text.rfind('\n', end) + 1;  // npos + 1 is 0
  return text.substr(start, std::min(text.find('\n', start), end + 1) - start);
}

Module load(const std::string& path, at::Device device) {
  try {
    return torch::jit::load(path, device);
  } catch (const std::exception& error) {
    const std::string reason = first_line_of(error);
    if (reason.starts_with("CUDA")) fail("{}: not loaded: {}", path, reason);
    fail("{}: not a TorchScript archive that can be loaded ({}); write it with torch.jit.save",
         path, reason);
  }
}

std::optional<Method> find(const Module& module, const std::string& path, const std::string& name,
                           bool required) {
  auto method = module.find_method(name);
  if (!method) {
    if (!required) return {};
    fail("{}: has no method {}(batch: List[Tensor]); add it, and export it with @torch.jit.export",
         path, name);
  }
  const auto& arguments = method->function().getSchema().arguments();
  if (arguments.size() != 2 || arguments[1].type()->str() != "Tensor[]") {
    std::string found;
    for (size_t i = 1; i < arguments.size(); ++i) {
      found += (i > 1 ? ", " : "") + arguments[i].type()->str();
    }
    fail("{}: {} must take one argument, batch: List[Tensor]; it takes ({})", path, name, found);
  }
  return method;
}

}  // namespace

struct ScriptProgram::Impl {
  std::string path;
  at::Device device;
  Module module;
  std::optional<Method> training, validation;
  // Tensors that are neither trained nor synchronised between replicas: they must not change.
  std::vector<NamedTensor> constants;
  torch::jit::ExtraFilesMap extra_files;  // that the archive was saved with

  void find_constants() {
    std::set<const void*> others;
    for (const auto& parameter : module.parameters()) {
      if (parameter.requires_grad()) others.insert(parameter.unsafeGetTensorImpl());
    }
    for (const auto& buffer : module.buffers()) others.insert(buffer.unsafeGetTensorImpl());
    for (const auto& attribute : module.named_attributes()) {
      if (!attribute.value.isTensor()) continue;
      const at::Tensor tensor = attribute.value.toTensor();
      if (!tensor.defined() || others.contains(tensor.unsafeGetTensorImpl())) continue;
      constants.push_back({attribute.name, tensor});
    }
  }

  // Autograd's counters of in-place changes. Weights may be loaded between two calls.
  std::vector<uint32_t> versions() const {
    std::vector<uint32_t> result;
    for (const auto& named : constants) result.push_back(named.tensor._version());
    return result;
  }

  void check_constants(const std::vector<uint32_t>& before, const std::string& method) const {
    for (size_t i = 0; i < constants.size(); ++i) {
      if (constants[i].tensor._version() == before[i]) continue;
      fail(
          "{}: {} changes {}, which is not a buffer and has no gradient; register it with "
          "register_buffer, so that replicas synchronise it and checkpoints contain it",
          path, method, constants[i].name);
    }
  }

  at::IValue call(Method& method, const std::vector<at::Tensor>& batch) {
    const std::vector<uint32_t> before = versions();
    at::IValue result = invoke(method, batch);
    check_constants(before, method.name());
    return result;
  }

  at::IValue invoke(Method& method, const std::vector<at::Tensor>& batch) {
    try {
      return method({c10::List<at::Tensor>(batch)});
    } catch (const c10::Error& error) {
      fail("{}: {} failed: {}", path, method.name(), cause(error.what_without_backtrace()));
    } catch (const std::exception& error) {
      fail("{}: {} failed: {}", path, method.name(), cause(error.what()));
    }
  }
};

ScriptProgram::ScriptProgram(const std::string& path, at::Device device)
    : impl_(new Impl{path, device, load(path, device), {}, {}, {}, {}}) {
  impl_->training = find(impl_->module, path, "training_step", true);
  impl_->validation = find(impl_->module, path, "validation_step", false);
  if (ScriptProgram::parameters().empty())
    fail("{}: has no parameter that requires a gradient", path);
  impl_->find_constants();
  for (auto& [name, content] : read_extra_files(path)) {
    impl_->extra_files[name] = std::move(content);
  }
}

ScriptProgram::~ScriptProgram() = default;

std::vector<NamedTensor> ScriptProgram::parameters() {
  std::vector<NamedTensor> result;
  for (const auto& parameter : impl_->module.named_parameters()) {
    if (parameter.value.requires_grad()) result.push_back({parameter.name, parameter.value});
  }
  return distinct(result);
}

std::vector<NamedTensor> ScriptProgram::buffers() {
  std::vector<NamedTensor> result;
  for (const auto& buffer : impl_->module.named_buffers()) {
    result.push_back({buffer.name, buffer.value});
  }
  return distinct(result);
}

std::vector<NamedTensor> ScriptProgram::frozen() {
  std::set<const void*> changing;  // storages
  for (const auto& tensors : {parameters(), buffers()}) {
    for (const auto& named : tensors) {
      if (named.tensor.has_storage()) {
        changing.insert(named.tensor.storage().unsafeGetStorageImpl());
      }
    }
  }
  std::vector<NamedTensor> result;
  for (const auto& named : impl_->constants) {
    const at::Tensor& tensor = named.tensor;
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || !tensor.has_storage()) continue;
    // A view of a parameter is trained with it.
    if (!changing.contains(tensor.storage().unsafeGetStorageImpl())) result.push_back(named);
  }
  return distinct(result);
}

at::Tensor ScriptProgram::training_step(const std::vector<at::Tensor>& batch) {
  // On CPUs the optimizer of TorchScript's executor is off. It makes one node of autograd of as
  // many layers as it can, whose gradients all come at the end of the backward pass, when it is too
  // late to average some while others are computed.
  const torch::jit::GraphOptimizerEnabledGuard guard(!impl_->device.is_cpu());
  const at::IValue result = impl_->call(*impl_->training, batch);
  if (!result.isTensor()) {
    fail("{}: training_step must return the loss, a Tensor; it returned {}", impl_->path,
         result.type()->str());
  }
  return result.toTensor();
}

bool ScriptProgram::can_validate() const {
  return impl_->validation.has_value();
}

std::map<std::string, at::Tensor> ScriptProgram::validation_step(
    const std::vector<at::Tensor>& batch) {
  const at::IValue result = impl_->call(*impl_->validation, batch);
  std::map<std::string, at::Tensor> sums;
  if (!result.isGenericDict()) {
    fail("{}: validation_step must return Dict[str, Tensor]; it returned {}", impl_->path,
         result.type()->str());
  }
  for (const auto& entry : result.toGenericDict()) {
    if (!entry.key().isString() || !entry.value().isTensor() ||
        entry.value().toTensor().numel() != 1) {
      fail("{}: validation_step must return scalar tensors by name (sums over the batch)",
           impl_->path);
    }
    sums[entry.key().toStringRef()] = entry.value().toTensor();
  }
  if (!sums.contains("count")) {
    fail("{}: validation_step's result has no \"count\", the number of samples in the batch",
         impl_->path);
  }
  return sums;
}

void ScriptProgram::train(bool on) {
  impl_->module.train(on);
}

void ScriptProgram::save(const std::string& path) {
  // Moved to the CPU: the machine that loads it may have no GPU.
  Module module = impl_->device.is_cpu() ? impl_->module : impl_->module.deepcopy(at::kCPU);
  const bool training = module.is_training();
  module.eval();
  Fd file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  // When a write fails, LibTorch's writer throws in its destructor, which ends the process. So the
  // callback always reports success, and the error is thrown after the writer is destroyed.
  std::optional<Error> problem;
  const auto write = [&](const void* data, size_t size) {
    try {
      if (!problem) write_all(file.get(), {static_cast<const char*>(data), size}, path);
    } catch (const Error& error) {
      problem = error;
    }
    return size;
  };
  torch::jit::ExportModule(module, write, impl_->extra_files);
  module.train(training);
  if (problem) throw Error(*problem);
  sync_and_close(std::move(file), path);
}

}  // namespace adaptdl
