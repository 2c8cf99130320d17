#include "runtime/parallel/gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/parallel/sparse_rows.h"
#include "runtime/parallel/tensor_math.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/parallel/tree_sum.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
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
                     const GradientsOptions& options)
    : parameters_(std::move(parameters)),
      optimizer_(optimizer),
      options_(options),
      accumulators_(std::make_unique<Accumulators>()),
      has_come_(parameters_.size()),
      seen_sparse_(parameters_.size()),
      sparse_(parameters_.size()) {
  // Until one knows better.
  for (size_t i = parameters_.size(); i-- > 0;) order_.push_back(static_cast<uint32_t>(i));
  plan_buckets();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto node = torch::autograd::impl::grad_accumulator(parameters_[i].tensor);
    hook_keys_.push_back(node->add_post_hook(std::make_unique<Hook>(this, i)));
    accumulators_->nodes.push_back(std::move(node));
  }
}

void Gradients::plan_buckets() {
  buckets_.clear();
  slots_.assign(parameters_.size(), {});
  // The first is small, so that the first all-reduce starts early.
  size_t bytes = 0, limit = options_.first_bucket_bytes;
  for (const size_t i : order_) {
    const auto& tensor = parameters_[i].tensor;
    wire_type(tensor.scalar_type());
    if (sparse_[i] != 0) continue;
    const size_t size = tensor.nbytes();
    const bool same_kind =
        !buckets_.empty() &&
        parameters_[buckets_.back().parameters[0]].tensor.scalar_type() == tensor.scalar_type() &&
        parameters_[buckets_.back().parameters[0]].tensor.device() == tensor.device();
    if (!same_kind || bytes + size > limit) {
      if (!buckets_.empty()) limit = options_.bucket_bytes;
      buckets_.emplace_back();
      bytes = 0;
    }
    Bucket& bucket = buckets_.back();
    slots_[i] = {static_cast<int>(buckets_.size()) - 1, bucket.count, tensor.numel(), false, {}};
    bucket.parameters.push_back(i);
    bucket.count += tensor.numel();
    bytes += size;
  }
}

Gradients::~Gradients() {
  reducer_.reset();
  for (size_t i = 0; i < hook_keys_.size(); ++i) {
    accumulators_->nodes[i]->del_post_hook(hook_keys_[i]);
  }
}

void Gradients::begin(comm::Communicator* communicator, int micro_steps, bool measure,
                      double loss_scale) {
  shards_ = 0;
  start(communicator, micro_steps, measure, loss_scale);
}

void Gradients::begin_shards(comm::Communicator* communicator, int shards, data::ShardRange mine,
                             double loss_scale) {
  ADAPTDL_CHECK(shards >= 1);
  shards_ = shards;
  mine_ = mine;
  tree_ = ShardTree(shards);
  start(communicator, std::max(mine.count, 1), /*measure=*/false, loss_scale);
}

void Gradients::start(comm::Communicator* communicator, int micro_steps, bool measure,
                      double loss_scale) {
  ADAPTDL_CHECK(micro_steps >= 1);
  communicator_ = communicator;
  micro_steps_ = micro_steps;
  micro_ = 0;
  measure_ = measure;
  loss_scale_ = loss_scale;
  sums_.clear();
  next_bucket_ = 0;
  norms_.assign(optimizer_.group_count(), {});
  if (!direct() && shards_ == 0) agree_on_buckets();
  for (auto& slot : slots_) {
    slot.filled = false;
    slot.rows.reset();
  }
  preconditioners_.assign(parameters_.size(), {});
  if (measure) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      preconditioners_[i] = optimizer_.preconditioner(options_.first + i);
    }
  }
  clear();
  if (!direct()) allocate();
  if (rounds()) return;
  for (auto& bucket : buckets_) bucket.rounded = {};
}

bool Gradients::rounds() const {
  return options_.rounded && communicator_ && communicator_->hosts() > 1 &&
         communicator_->sends_16_bits() && shards_ == 0;
}

// All replicas must send the same: what is sparse on one is sparse on all, and gradients go in the
// order in which rank 0's come.
void Gradients::agree_on_buckets() {
  std::vector<uint8_t> sparse = seen_sparse_;
  std::vector<uint32_t> order = order_;
  if (communicator_) {
    if (agreed_in_ == communicator_->generation()) return;
    std::vector<uint8_t> all(sparse.size() * static_cast<size_t>(communicator_->size()));
    communicator_->all_gather(sparse.data(), sparse.size(), all.data());
    for (size_t i = 0; i < all.size(); ++i) sparse[i % sparse.size()] |= all[i];
    order = came_;
    order.resize(order_.size() + 1);
    std::ranges::copy_if(order_, order.begin() + static_cast<std::ptrdiff_t>(came_.size()),
                         [this](uint32_t i) { return has_come_[i] == 0; });
    order.back() = static_cast<uint32_t>(came_.size());
    communicator_->broadcast(order.data(), order.size() * sizeof order[0], 0);
    // Where rank 0 does not know any yet, it will in the next step.
    if (order.back() > 0) agreed_in_ = communicator_->generation();
    order.pop_back();
  }
  if (sparse == sparse_ && order == order_) return;
  sparse_ = sparse;
  order_ = order;
  plan_buckets();
}

void Gradients::allocate() {
  if (communicator_ && !reducer_) {
    reducer_ = std::make_unique<Reducer>(parameters_.empty() ? at::Device(at::kCPU)
                                                             : parameters_[0].tensor.device());
  }
  for (auto& bucket : buckets_) {
    if (bucket.flat.defined()) continue;
    const auto& like = parameters_[bucket.parameters[0]].tensor;
    bucket.flat = at::empty({bucket.count}, like.options().requires_grad(false));
  }
}

void Gradients::begin_micro_step(int micro, double weight) {
  micro_ = micro;
  weight_ = weight;
  active_ = true;
  if (shards_ > 0) begin_shard();
  if (shards_ > 0 || last_pass()) {
    for (auto& bucket : buckets_) bucket.missing = static_cast<int>(bucket.parameters.size());
  }
}

void Gradients::begin_shard() {
  for (auto& slot : slots_) slot.reached = false;
  if (mine_.count == 0) return;
  const size_t before = tree_.nodes().size();
  const int sums = tree_.push({0, mine_.first + micro_});
  // A right child is added to the left one as it comes.
  shard_pass_ = sums > 0 ? ShardPass{before - 1, true, sums - 1} : ShardPass{before, false, 0};
  for (auto& bucket : buckets_) {
    while (bucket.more.size() < shard_pass_.node)
      bucket.more.push_back(at::empty_like(bucket.flat));
  }
}

// The gradient of the pass is whole: adds nodes as far as the tree's order allows.
void Gradients::end_shard(Bucket& bucket) {
  size_t node = shard_pass_.node;
  for (int sums = shard_pass_.sums; sums > 0; --sums, --node) {
    bucket.node(node - 1).add_(bucket.node(node));
  }
}

void Gradients::on_gradient(size_t parameter) {
  at::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  if (!gradient.defined()) return;
  if (std::exchange(has_come_[parameter], 1) == 0)
    came_.push_back(static_cast<uint32_t>(parameter));
  const bool rows = has_rows(gradient) && optimizer_.takes_rows(options_.first + parameter);
  if (rows) seen_sparse_[parameter] = 1;
  if (!active_) {
    disturbed_ = true;
    return;
  }
  const bool stays = rows && (direct() || sparse_[parameter] != 0);
  if (gradient.is_sparse()) gradient = stays ? rows_of(gradient) : gradient.to_dense();
  if (loss_scale_ != 1) values_of(gradient).mul_(1 / loss_scale_);
  if (direct()) {
    // A GPU would have a launch for each gradient.
    if (!measure_ && gradient.is_cpu()) sums_.check(values_of(gradient));
    return;
  }
  take(parameter, gradient);
  gradient.reset();
  if (shards_ > 0 || (last_pass() && sparse_[parameter] == 0)) complete(slots_[parameter].bucket);
}

void Gradients::take(size_t parameter, const at::Tensor& gradient) {
  Slot& slot = slots_[parameter];
  // |g_i|^2 counts as n_i / n, and the gradient here is weight * g_i, with weight = K n_i / n.
  const int replicas = communicator_ ? communicator_->size() : 1;
  const double factor = 1 / (replicas * weight_);
  double& local = norms_[optimizer_.group_of(options_.first + parameter)].local;
  if (sparse_[parameter] != 0) {
    const at::Tensor rows = rows_of(gradient);
    sums_.add_squares(values_of(rows), {}, factor, local);
    slot.rows = slot.filled ? at::add(slot.rows, rows).coalesce() : rows;
  } else {
    const Bucket& bucket = buckets_[slot.bucket];
    const at::Tensor& flat = shards_ > 0 ? bucket.node(shard_pass_.node) : bucket.flat;
    const bool add = shards_ > 0 ? shard_pass_.adds : slot.filled;
    sums_.store(flat.narrow(0, slot.offset, slot.count), gradient, add, preconditioners_[parameter],
                factor, measure_ ? &local : nullptr);
  }
  slot.filled = slot.reached = true;
}

void Gradients::complete(int bucket) {
  if (--buckets_[bucket].missing > 0) return;
  if (shards_ > 0) end_shard(buckets_[bucket]);
  if (last_pass()) submit_ready();
}

void Gradients::submit_ready() {
  // In fixed order: all replicas must reduce the same bucket at the same time.
  while (next_bucket_ < static_cast<int>(buckets_.size()) && buckets_[next_bucket_].missing == 0) {
    Bucket& bucket = buckets_[next_bucket_++];
    if (!communicator_) continue;
    if (shards_ > 0) {
      std::vector<at::Tensor> nodes = bucket.more;
      nodes.insert(nodes.begin(), bucket.flat);
      reducer_->submit([nodes, shards = shards_, communicator = communicator_] {
        sum_by_tree(*communicator, shards, nodes);
      });
      continue;
    }
    if (rounds() && bucket.flat.scalar_type() == at::kFloat) {
      reducer_->submit([&bucket, communicator = communicator_] {
        bucket.rounded.average(*communicator, bucket.flat);
      });
      continue;
    }
    reducer_->submit([&flat = bucket.flat, communicator = communicator_] {
      communicator->all_reduce(flat.data_ptr(), static_cast<size_t>(flat.numel()),
                               wire_type(flat.scalar_type()), comm::Op::average, memory_of(flat));
    });
  }
}

void Gradients::end_micro_step() {
  active_ = false;
  if (shards_ > 0 && mine_.count > 0) {
    // Zero also where it is only added: -0 becomes 0, as if all were added.
    for (auto& bucket : buckets_) {
      if (bucket.missing == 0) continue;
      for (const size_t parameter : bucket.parameters) {
        const Slot& slot = slots_[parameter];
        if (slot.reached) continue;
        const at::Tensor part = bucket.node(shard_pass_.node).narrow(0, slot.offset, slot.count);
        shard_pass_.adds ? part.add_(0) : part.zero_();
      }
      end_shard(bucket);
      bucket.missing = 0;
    }
  }
  if (direct() || !last_pass()) return;
  // Parameters that this backward pass did not reach: zero, or the sum of earlier passes.
  for (auto& bucket : buckets_) {
    for (const size_t parameter : bucket.parameters) {
      Slot& slot = slots_[parameter];
      if (slot.filled || shards_ > 0) continue;
      bucket.flat.narrow(0, slot.offset, slot.count).zero_();
    }
    bucket.missing = 0;
  }
  submit_ready();
}

void Gradients::average_sparse() {
  std::vector<at::Tensor> parameters, rows;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (sparse_[i] == 0) continue;
    parameters.push_back(parameters_[i].tensor);
    rows.push_back(slots_[i].rows);
  }
  if (parameters.empty()) return;
  const auto means = average_rows(*communicator_, parameters, rows);
  auto next = means.begin();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (sparse_[i] != 0) slots_[i].rows = *next++;
  }
}

void Gradients::finish() {
  if (communicator_) {
    reducer_->wait();
    average_sparse();
  }
  const auto begun = Monotonic::now();
  std::vector<gns::Dots> dots(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i].tensor;
    GroupNorms& norms = norms_[optimizer_.group_of(options_.first + i)];
    if (!direct()) {
      const Slot& slot = slots_[i];
      // A single replica leaves unused parameters without a gradient, like plain autograd; in a
      // group another replica may have used them.
      if (!communicator_ && !slot.filled) continue;
      parameter.mutable_grad() = sparse_[i] != 0 ? slot.rows
                                                 : buckets_[slot.bucket]
                                                       .flat.narrow(0, slot.offset, slot.count)
                                                       .view(parameter.sizes());
    }
    if (!parameter.grad().defined()) continue;
    if (!measure_) {
      if (!parameter.grad().is_cpu()) sums_.check(values_of(parameter.grad()));
      continue;
    }
    if (direct() && has_previous() && previous_[i].defined()) {
      if (parameter.grad().is_sparse() || previous_[i].is_sparse()) {
        dots[i] = dots_of_rows(parameter.grad(), previous_[i]);
      } else {
        sums_.add_dots(parameter.grad(), previous_[i], preconditioners_[i], dots[i]);
      }
    } else {
      sums_.add_squares(values_of(parameter.grad()), preconditioners_[i], 1, norms.total);
    }
  }
  finite_ = sums_.read();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    GroupNorms& norms = norms_[optimizer_.group_of(options_.first + i)];
    norms.total += dots[i].aa;
    norms.previous += dots[i].bb;
    norms.product += dots[i].ab;
  }
  for (const GroupNorms& norms : norms_) finite_ &= std::isfinite(norms.total);
  measure_seconds_ = seconds_since(begun);
}

std::vector<uint32_t> Gradients::used() const {
  std::vector<uint32_t> bits((parameters_.size() + 31) / 32);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool reached = direct() ? parameters_[i].tensor.grad().defined() : slots_[i].filled;
    if (reached) bits[i / 32] |= 1u << i % 32;
  }
  return bits;
}

void Gradients::drop_unused(const std::vector<uint32_t>& used_anywhere) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if ((used_anywhere.at(i / 32) >> i % 32 & 1) == 0) parameters_[i].tensor.mutable_grad().reset();
  }
}

void Gradients::abandon() noexcept {
  active_ = false;
  if (communicator_ && reducer_) {
    try {
      reducer_->wait();
    } catch (const std::exception&) {  // aborted, as it should be
    }
  }
  clear();
}

void Gradients::remember(bool copy) {
  previous_.clear();
  for (const auto& parameter : parameters_) {
    const at::Tensor gradient = parameter.tensor.grad();
    previous_.push_back(copy && gradient.defined() ? gradient.clone() : gradient);
  }
}

void Gradients::clear() {
  disturbed_ = false;
  for (auto& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

}  // namespace adaptdl
