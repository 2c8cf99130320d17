#include "runtime/parallel/gradients.h"

#include <algorithm>
#include <cmath>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/parallel/device_memory.h"
#include "runtime/parallel/tensor_math.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

comm::Type wire_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return comm::Type::f32;
    case at::kDouble:
      return comm::Type::f64;
    case at::kHalf:
      return comm::Type::f16;
    case at::kBFloat16:
      return comm::Type::bf16;
    default:
      fail("parameters of type {} cannot be trained data-parallel; use a floating-point type",
           at::toString(type));
  }
}

}  // namespace

// Autograd holds its accumulators only weakly; this keeps them alive.
struct Gradients::Accumulators {
  std::vector<GradAccumulator> nodes;
};

class Gradients::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(Gradients* owner, size_t parameter) : owner_(owner), parameter_(parameter) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    owner_->on_gradient(parameter_);
    return outputs;
  }

 private:
  Gradients* owner_;
  size_t parameter_;
};

Gradients::Gradients(std::vector<NamedTensor> parameters, const Optimizer& optimizer,
                     size_t bucket_bytes, size_t first_bucket_bytes)
    : parameters_(std::move(parameters)),
      optimizer_(optimizer),
      accumulators_(std::make_unique<Accumulators>()),
      slots_(parameters_.size()) {
  // Backward reaches parameters roughly in reverse order, so buckets use that order. The first is
  // small, so that the first all-reduce starts early.
  size_t bytes = 0, limit = first_bucket_bytes;
  for (size_t i = parameters_.size(); i-- > 0;) {
    const auto& tensor = parameters_[i].tensor;
    wire_type(tensor.scalar_type());
    const size_t size = tensor.nbytes();
    const bool same_kind =
        !buckets_.empty() &&
        parameters_[buckets_.back().parameters[0]].tensor.scalar_type() == tensor.scalar_type() &&
        parameters_[buckets_.back().parameters[0]].tensor.device() == tensor.device();
    if (!same_kind || bytes + size > limit) {
      if (!buckets_.empty()) limit = bucket_bytes;
      buckets_.emplace_back();
      bytes = 0;
    }
    Bucket& bucket = buckets_.back();
    slots_[i] = {static_cast<int>(buckets_.size()) - 1, bucket.count, tensor.numel(), false};
    bucket.parameters.push_back(i);
    bucket.count += tensor.numel();
    bytes += size;
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto node = torch::autograd::impl::grad_accumulator(parameters_[i].tensor);
    hook_keys_.push_back(node->add_post_hook(std::make_unique<Hook>(this, i)));
    accumulators_->nodes.push_back(std::move(node));
  }
}

Gradients::~Gradients() {
  reducer_.reset();
  for (size_t i = 0; i < hook_keys_.size(); ++i) {
    accumulators_->nodes[i]->del_post_hook(hook_keys_[i]);
  }
}

void Gradients::begin(comm::Communicator* communicator, int micro_steps, bool measure) {
  ADAPTDL_CHECK(micro_steps >= 1);
  communicator_ = communicator;
  micro_steps_ = micro_steps;
  micro_ = 0;
  measure_ = measure;
  finite_ = true;
  next_bucket_ = 0;
  norms_.assign(optimizer_.group_count(), {});
  for (auto& slot : slots_) slot.filled = false;
  preconditioners_.assign(parameters_.size(), {});
  if (measure) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      preconditioners_[i] = optimizer_.preconditioner(i);
    }
  }
  clear();
  if (!direct()) allocate();
}

void Gradients::allocate() {
  if (communicator_ && !reducer_) reducer_ = std::make_unique<Reducer>();
  for (auto& bucket : buckets_) {
    if (bucket.flat.defined()) continue;
    const auto& like = parameters_[bucket.parameters[0]].tensor;
    const auto used = static_cast<int64_t>(bucket.parameters.size());
    bucket.flat = at::empty({bucket.count + used}, like.options().requires_grad(false));
  }
}

void Gradients::begin_micro_step(int micro, double weight) {
  micro_ = micro;
  weight_ = weight;
  active_ = true;
  if (micro == micro_steps_ - 1) {
    for (auto& bucket : buckets_) bucket.missing = static_cast<int>(bucket.parameters.size());
  }
}

void Gradients::on_gradient(size_t parameter) {
  if (!active_) return;
  at::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  if (!gradient.defined()) return;
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  if (direct()) {
    if (!measure_ && gradient.device().is_cpu()) finite_ &= all_finite(gradient);
    return;
  }
  take(parameter, gradient);
  gradient.reset();
  if (micro_ == micro_steps_ - 1) complete(slots_[parameter].bucket);
}

void Gradients::take(size_t parameter, const at::Tensor& gradient) {
  Slot& slot = slots_[parameter];
  const at::Tensor target = buckets_[slot.bucket].flat.narrow(0, slot.offset, slot.count);
  const double squares =
      store(target, gradient, slot.filled, measure_, preconditioners_[parameter]);
  slot.filled = true;
  finite_ &= std::isfinite(squares);
  // |g_i|^2 counts as n_i / n, and the gradient here is weight * g_i, with weight = K n_i / n.
  const int replicas = communicator_ ? communicator_->size() : 1;
  norms_[optimizer_.group_of(parameter)].local += squares / (replicas * weight_);
}

void Gradients::complete(int bucket) {
  if (--buckets_[bucket].missing == 0) submit_ready();
}

void Gradients::submit_ready() {
  // In fixed order: all replicas must reduce the same bucket at the same time.
  while (next_bucket_ < static_cast<int>(buckets_.size()) && buckets_[next_bucket_].missing == 0) {
    Bucket& bucket = buckets_[next_bucket_++];
    if (!communicator_) continue;
    mark_used(bucket);
    reducer_->submit([&flat = bucket.flat, communicator = communicator_] {
      communicator->all_reduce(flat.data_ptr(), static_cast<size_t>(flat.numel()),
                               wire_type(flat.scalar_type()), comm::Op::average, memory_of(flat));
    });
  }
}

void Gradients::end_micro_step() {
  active_ = false;
  if (direct() || micro_ != micro_steps_ - 1) return;
  // Parameters that this backward pass did not reach: zero, or the sum of earlier passes.
  for (auto& bucket : buckets_) {
    for (const size_t parameter : bucket.parameters) {
      Slot& slot = slots_[parameter];
      if (slot.filled) continue;
      bucket.flat.narrow(0, slot.offset, slot.count).zero_();
    }
    bucket.missing = 0;
  }
  submit_ready();
}

void Gradients::mark_used(const Bucket& bucket) const {
  std::vector<double> used;
  for (const size_t parameter : bucket.parameters) used.push_back(slots_[parameter].filled ? 1 : 0);
  const auto numbers = bucket.flat.narrow(0, bucket.count, static_cast<int64_t>(used.size()));
  if (std::find(used.begin(), used.end(), 0.0) == used.end()) {
    numbers.fill_(1);
  } else {
    numbers.copy_(at::tensor(used, at::kDouble));
  }
}

// Of parameters that this replica did not use, finds those that another one did.
void Gradients::find_used(const Bucket& bucket) {
  at::Tensor used;
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    Slot& slot = slots_[bucket.parameters[i]];
    if (slot.filled) continue;
    if (!used.defined()) {
      used = bucket.flat.narrow(0, bucket.count, static_cast<int64_t>(bucket.parameters.size()))
                 .to(at::kCPU, at::kDouble);
    }
    slot.filled = used.const_data_ptr<double>()[i] > 0;
  }
}

void Gradients::finish() {
  if (communicator_) {
    reducer_->wait();
    for (const Bucket& bucket : buckets_) find_used(bucket);
  }
  const auto begun = Monotonic::now();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i].tensor;
    GroupNorms& norms = norms_[optimizer_.group_of(i)];
    if (!direct()) {
      const Slot& slot = slots_[i];
      if (!slot.filled) continue;
      parameter.mutable_grad() =
          buckets_[slot.bucket].flat.narrow(0, slot.offset, slot.count).view(parameter.sizes());
    }
    if (!parameter.grad().defined()) continue;
    if (!measure_) {
      // The hook would have waited for the device.
      if (!parameter.grad().device().is_cpu()) finite_ &= all_finite(parameter.grad());
      continue;
    }
    if (direct() && has_previous() && previous_[i].defined()) {
      const Dots sums = dots(parameter.grad(), previous_[i], preconditioners_[i]);
      norms.total += sums.aa;
      norms.previous += sums.bb;
      norms.product += sums.ab;
    } else {
      norms.total += sum_squares(parameter.grad(), preconditioners_[i]);
    }
  }
  for (const GroupNorms& norms : norms_) finite_ &= std::isfinite(norms.total);
  measure_seconds_ = seconds_since(begun);
}

void Gradients::remember(bool copy) {
  previous_.clear();
  for (const auto& parameter : parameters_) {
    const at::Tensor gradient = parameter.tensor.grad();
    previous_.push_back(copy && gradient.defined() ? gradient.clone() : gradient);
  }
}

void Gradients::clear() {
  for (auto& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

}  // namespace adaptdl
