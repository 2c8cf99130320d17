#include "runtime/session/precision.h"

#include <algorithm>

#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

using Precision = TrainingSpec::Precision;

constexpr double kFirstScale = 65536, kLargestScale = 1 << 24;
constexpr int64_t kStepsToDouble = 2000;

}  // namespace

std::string name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "";
}

Autocast::Autocast(at::Device device, Precision precision)
    : device_(device.type()), on_(precision != Precision::fp32) {
  if (!on_) return;
  previous_ = at::autocast::is_autocast_enabled(device_);
  previous_type_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_dtype(device_,
                                   precision == Precision::fp16 ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, true);
}

Autocast::~Autocast() {
  if (!on_) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, previous_);
  at::autocast::set_autocast_dtype(device_, previous_type_);
}

LossScale LossScale::first(Precision precision) {
  return {precision == Precision::fp16 ? kFirstScale : 1, 0};
}

LossScale LossScale::after(Precision precision, bool finite) const {
  if (precision != Precision::fp16) return *this;
  if (!finite) return {std::max(factor / 2, 1.0), 0};
  if (steps + 1 < kStepsToDouble) return {factor, steps + 1};
  return {std::min(2 * factor, kLargestScale), 0};
}

}  // namespace adaptdl
