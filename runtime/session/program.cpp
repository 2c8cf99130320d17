#include "runtime/session/program.h"

#include "core/base/error.h"

namespace adaptdl {

std::map<std::string, at::Tensor> Program::validation_step(const std::vector<at::Tensor>&) {
  fail("this program has no validation step");
}

}  // namespace adaptdl
