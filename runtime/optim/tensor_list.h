#pragma once

// The operations of rules.h on lists of tensors: any device, type and layout. Each is one call for
// the whole list, which on a GPU is a few launches, however many parameters there are. A value is a
// list of handles: functions that return one make new tensors, the others change theirs.

#include <utility>
#include <vector>

#include "runtime/torch_compat.h"

namespace adaptdl::rules {

struct TensorList {
  std::vector<at::Tensor> tensors;
};

inline void scale(TensorList& x, double by) {
  if (by != 1) at::_foreach_mul_(x.tensors, by);
}
inline void add(TensorList& x, double number) {
  at::_foreach_add_(x.tensors, number);
}
inline void add_scaled(TensorList& x, const TensorList& y, double by) {
  if (by != 0) at::_foreach_add_(x.tensors, y.tensors, by);
}
inline void add_product(TensorList& x, const TensorList& a, const TensorList& b, double by) {
  at::_foreach_addcmul_(x.tensors, a.tensors, b.tensors, by);
}
inline void add_quotient(TensorList& x, const TensorList& a, const TensorList& b, double by) {
  at::_foreach_addcdiv_(x.tensors, a.tensors, b.tensors, by);
}
inline void multiply(TensorList& x, const TensorList& y) {
  at::_foreach_mul_(x.tensors, y.tensors);
}
inline void divide(TensorList& x, const TensorList& y) {
  at::_foreach_div_(x.tensors, y.tensors);
}
inline void raise_to(TensorList& x, const TensorList& least) {
  at::_foreach_maximum_(x.tensors, least.tensors);
}
inline TensorList scaled(const TensorList& x, double by) {
  return {at::_foreach_mul(x.tensors, by)};
}
inline TensorList plus(const TensorList& x, double number) {
  return {at::_foreach_add(x.tensors, number)};
}
// May share the tensors of `x`; nothing changes the result.
inline TensorList plus_scaled(const TensorList& x, const TensorList& y, double by) {
  if (by == 0) return x;
  return {at::_foreach_add(x.tensors, y.tensors, by)};
}
inline TensorList minus_square(const TensorList& x, const TensorList& y) {
  return {at::_foreach_addcmul(x.tensors, y.tensors, y.tensors, -1)};
}
inline TensorList square_root(const TensorList& x) {
  return {at::_foreach_sqrt(x.tensors)};
}
inline TensorList sign(const TensorList& x) {
  return {at::_foreach_sign(x.tensors)};
}

}  // namespace adaptdl::rules
