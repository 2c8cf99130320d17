#include "runtime/open/open_program.h"

#include "core/base/error.h"
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

void OpenProgram::add_parameters(const std::vector<NamedTensor>& parameters) {
  append(parameters_, parameters);
}

void OpenProgram::add_buffers(const std::vector<NamedTensor>& buffers) {
  append(buffers_, buffers);
}

}  // namespace adaptdl
