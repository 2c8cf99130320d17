#include "runtime/session/check_tensors.h"

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxName = 1000;  // a prefix and a suffix are added in checkpoints

void check_list(const std::vector<NamedTensor>& tensors, const std::string& kind) {
  std::set<std::string> names;
  std::unordered_map<const void*, std::string> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty() || name.size() > kMaxName) {
      fail("the name of a {} must have 1 to {} bytes: \"{}\"", kind, kMaxName, name.substr(0, 40));
    }
    if (!names.insert(name).second) fail("the program has two {}s called {}", kind, name);
    if (!tensor.defined()) fail("{} {} is an undefined tensor", kind, name);
    if (tensor.layout() != at::kStrided) fail("{} {} is sparse; make it dense", kind, name);
    const auto [first, added] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!added) {
      fail("{}s {} and {} are the same tensor; remove one with adaptdl::distinct()", kind,
           first->second, name);
    }
  }
}

}  // namespace

void check_tensors(Program& program) {
  const auto parameters = program.parameters();
  check_list(parameters, "parameter");
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.is_floating_point() || !tensor.is_leaf() || !tensor.requires_grad()) {
      fail(
          "parameter {} is not a floating-point leaf that requires a gradient; leave frozen "
          "parameters out, and return other tensors that training changes from buffers()",
          name);
    }
  }
  check_list(program.buffers(), "buffer");
  check_list(program.frozen(), "frozen tensor");
}

}  // namespace adaptdl
