#include "runtime/session/step_failure.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "runtime/torch_compat.h"

namespace adaptdl {

bool out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // cuBLAS tells of its handle only that there is none.
  constexpr std::string_view kTexts[] = {
      "can't allocate memory", "not enough memory",
      "out of memory",         "std::bad_alloc",
      "STATUS_ALLOC_FAILED",   "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate"};
  const std::string_view text = error.what();
  return std::ranges::any_of(
      kTexts, [text](std::string_view said) { return text.find(said) != std::string_view::npos; });
}

std::string reason_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch ? torch->what_without_backtrace() : error.what();
}

}  // namespace adaptdl
