#include "runtime/parallel/gradient_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/gns/kernels.h"
#include "runtime/parallel/tensor_math.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// Elements of a piece of a tensor, and of a list: of it up to three others are made.
constexpr int64_t kPiece = int64_t{1} << 24, kList = 2 * kPiece;

size_t count_of(const at::Tensor& tensor) {
  return static_cast<size_t>(tensor.numel());
}

at::Tensor flat(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().reshape({-1}) : at::Tensor();
}

at::Tensor piece(const at::Tensor& flat, int64_t begin, int64_t count) {
  return flat.defined() ? flat.narrow(0, begin, count) : at::Tensor();
}

void widen(std::vector<at::Tensor>& list, at::ScalarType type) {
  for (at::Tensor& each : list) each = each.to(type);
}

}  // namespace

bool GradientSums::Part::like(const Part& other) const {
  return a.device() == other.a.device() && a.scalar_type() == other.a.scalar_type() &&
         (sum != nullptr) == (other.sum != nullptr) &&
         (dots != nullptr) == (other.dots != nullptr) &&
         squares.defined() == other.squares.defined() && divisor.scale() == other.divisor.scale() &&
         divisor.eps() == other.divisor.eps();
}

void GradientSums::queue(Part part, const Preconditioner& divisor) {
  part.divisor = gns_divisor(divisor);
  const bool divides = part.divisor.kind() != gns::Divisor::Kind::ones;
  const at::Tensor a = flat(part.a), b = flat(part.b);
  const at::Tensor squares = divides ? flat(divisor.exp_avg_sq) : at::Tensor();
  for (int64_t begin = 0; begin < a.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, a.numel() - begin);
    part.a = piece(a, begin, count);
    part.b = piece(b, begin, count);
    part.squares = piece(squares, begin, count);
    queue_.push_back(part);
  }
}

void GradientSums::add_squares(const at::Tensor& values, const Preconditioner& divisor,
                               double factor, double& sum) {
  if (!plain(values, divisor)) {
    Part part{.a = values, .factor = factor, .sum = &sum};
    return queue(std::move(part), divisor);
  }
  const double squares =
      gns::sum_squares(values.const_data_ptr<float>(), count_of(values), gns_divisor(divisor));
  finite_ &= std::isfinite(squares);
  sum += factor * squares;
}

void GradientSums::add_dots(const at::Tensor& a, const at::Tensor& b, const Preconditioner& divisor,
                            gns::Dots& sums) {
  if (!plain(a, divisor) || !plain(b)) {
    Part part{.a = a, .b = b, .dots = &sums};
    return queue(std::move(part), divisor);
  }
  const auto all = gns::dots(a.const_data_ptr<float>(), b.const_data_ptr<float>(), count_of(a),
                             gns_divisor(divisor));
  finite_ &= std::isfinite(all.aa);
  sums.aa += all.aa;
  sums.bb += all.bb;
  sums.ab += all.ab;
}

void GradientSums::store(const at::Tensor& target, const at::Tensor& source, bool add,
                         const Preconditioner& divisor, double factor, double* sum) {
  if (plain(target) && plain(source, divisor)) {
    auto* const to = target.mutable_data_ptr<float>();
    const auto* const from = source.const_data_ptr<float>();
    const gns::Divisor by = sum ? gns_divisor(divisor) : gns::Divisor();
    const double squares = add ? gns::accumulate_and_norm(to, from, count_of(source), by)
                               : gns::copy_and_norm(to, from, count_of(source), by);
    finite_ &= std::isfinite(squares);
    if (sum) *sum += factor * squares;
    return;
  }
  const auto values = source.detach().reshape({-1});
  add ? target.add_(values) : target.copy_(values);
  if (sum) {
    add_squares(source, divisor, factor, *sum);
  } else if (source.is_cpu()) {
    check(source);
  }
  launch();
}

void GradientSums::check(const at::Tensor& values) {
  if (!plain(values)) return queue({.a = values}, {});
  finite_ &= gns::all_finite(values.const_data_ptr<float>(), count_of(values));
}

// Of parts that are like each other.
at::Tensor GradientSums::norms_of(const std::vector<Part>& parts) {
  const Part& first = parts.front();
  const bool wide = first.a.is_cpu() || first.a.scalar_type() == at::kDouble;
  const auto type = wide ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> a, b, divisors;
  for (const Part& part : parts) {
    a.push_back(part.a);
    if (part.dots) b.push_back(part.b);
    if (part.squares.defined()) divisors.push_back(part.squares);
  }
  if (!first.sum && !first.dots) {
    return at::stack(at::_foreach_norm(a, std::numeric_limits<double>::infinity()));
  }
  if (!divisors.empty()) {
    widen(divisors, type);
    divisors = at::_foreach_sqrt(divisors);
    at::_foreach_mul_(divisors, std::sqrt(static_cast<double>(first.divisor.scale())));
    at::_foreach_add_(divisors, first.divisor.eps());
    at::_foreach_reciprocal_(divisors);
    if (first.dots) {
      a = at::_foreach_mul(divisors, a);
      at::_foreach_mul_(divisors, b);
      b = std::move(divisors);
    } else {
      at::_foreach_mul_(divisors, a);
      a = std::move(divisors);
    }
  } else if (first.dots) {
    widen(a, type);
    widen(b, type);
  }
  auto norms = at::_foreach_norm(a, 2, type);
  if (first.dots) {
    const auto add = [&](const std::vector<at::Tensor>& list) {
      for (at::Tensor& norm : at::_foreach_norm(list, 2, type)) norms.push_back(std::move(norm));
    };
    add(b);
    add(at::_foreach_sub(a, b));
  }
  return at::stack(norms);
}

void GradientSums::launch() {
  const at::NoGradGuard no_grad;
  while (!queue_.empty()) {
    Launched list;
    std::vector<Part> others;
    int64_t elements = 0;
    for (Part& part : queue_) {
      const int64_t size = part.a.numel();
      const bool fits =
          list.parts.empty() || (part.like(list.parts.front()) && elements + size <= kList);
      if (fits) elements += size;
      (fits ? list.parts : others).push_back(std::move(part));
    }
    list.norms = norms_of(list.parts);
    for (Part& part : list.parts) {
      for (at::Tensor* each : {&part.a, &part.b, &part.squares}) each->reset();
    }
    launched_.push_back(std::move(list));
    queue_ = std::move(others);
  }
}

bool GradientSums::read() {
  launch();
  for (const Launched& list : launched_) {
    const at::Tensor host = list.norms.to(at::kCPU, at::kDouble);
    const auto* norms = host.const_data_ptr<double>();
    const size_t count = list.parts.size();
    for (int64_t i = 0; i < host.numel(); ++i) finite_ &= std::isfinite(norms[i]);
    for (size_t i = 0; i < count; ++i) {
      const Part& part = list.parts[i];
      const double aa = norms[i] * norms[i];
      if (part.sum) *part.sum += part.factor * aa;
      if (!part.dots) continue;
      const double bb = norms[count + i] * norms[count + i];
      const double difference = norms[2 * count + i] * norms[2 * count + i];
      part.dots->aa += aa;
      part.dots->bb += bb;
      part.dots->ab += (aa + bb - difference) / 2;
    }
  }
  launched_.clear();
  return std::exchange(finite_, true);
}

void GradientSums::clear() {
  queue_.clear();
  launched_.clear();
  finite_ = true;
}

}  // namespace adaptdl
