#include "runtime/session/shard_buffers.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/sampler.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// Eight bytes for each number: of float64, or of int64.
at::Tensor widened(const at::Tensor& tensor) {
  const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  return real.to(real.is_floating_point() ? at::kDouble : at::kLong).contiguous().flatten();
}

}  // namespace

void ShardBuffers::end_pass(int shard) {
  if (saved_.none()) return;
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> now = program_.buffers();
  for (size_t i = 0; i < now.size(); ++i) {
    const at::Tensor values = now[i].tensor.detach(), &before = saved_.before(i);
    if (values.sizes() != before.sizes() || values.scalar_type() != before.scalar_type()) {
      fail(
          "training_step changes the shape or type of the buffer {}, which deterministic: true "
          "does not allow",
          now[i].name);
    }
    if (!at::equal(values, before)) changed_[i][shard] = values.clone();
  }
}

void ShardBuffers::combine(comm::Communicator* communicator, int shards, int sharers) {
  if (saved_.none()) return;
  const at::NoGradGuard no_grad;
  saved_.rewind();  // -0 in place of 0 counts as unchanged
  const std::vector<NamedTensor> now = program_.buffers();
  const int replicas = communicator ? communicator->size() : 1;
  std::vector<uint8_t> mine(now.size()), all(now.size() * static_cast<size_t>(replicas));
  for (const auto& [i, values] : changed_) mine[i] = 1;
  if (communicator) {
    communicator->all_gather(mine.data(), mine.size(), all.data());
    for (size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] |= all[i];
  }
  int64_t width = 0;  // of a shard, in numbers
  for (size_t i = 0; i < now.size(); ++i) {
    if (mine[i] != 0) width += widened(saved_.before(i)).numel();
  }
  if (width == 0) return;

  // A row of eight-byte numbers for each shard, as many for each replica.
  const auto most = static_cast<size_t>((shards + replicas - 1) / replicas);
  const auto row_bytes = static_cast<size_t>(width) * 8;
  std::vector<std::byte> sent(most * row_bytes), got(sent.size() * static_cast<size_t>(replicas));
  const int rank = communicator ? communicator->rank() : 0;
  const data::ShardRange range = data::shards_of(shards, replicas, rank);
  for (int row = 0; row < range.count; ++row) {
    std::byte* to = sent.data() + static_cast<size_t>(row) * row_bytes;
    for (size_t i = 0; i < now.size(); ++i) {
      if (mine[i] == 0) continue;
      const auto of_buffer = changed_.find(i);
      at::Tensor values = saved_.before(i);
      if (of_buffer != changed_.end()) {
        const auto changed = of_buffer->second.find(range.first + row);
        if (changed != of_buffer->second.end()) values = changed->second;
      }
      const at::Tensor wide = widened(values);
      std::memcpy(to, wide.const_data_ptr(), wide.nbytes());
      to += wide.nbytes();
    }
  }
  if (communicator) {
    communicator->all_gather(sent.data(), sent.size(), got.data());
  } else {
    got = std::move(sent);
  }
  size_t offset = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (mine[i] == 0) continue;
    const at::Tensor before = widened(saved_.before(i));
    at::Tensor sum = at::empty_like(before), next = at::empty_like(before);
    int shard = 0;
    for (int owner = 0; owner < replicas; ++owner) {
      const int rows = data::shards_of(shards, replicas, owner).count;
      for (int row = 0; row < rows && shard < sharers; ++row, ++shard) {
        const size_t of_shard = static_cast<size_t>(owner) * most + static_cast<size_t>(row);
        std::memcpy(next.mutable_data_ptr(), got.data() + of_shard * row_bytes + offset,
                    next.nbytes());
        if (shard == 0) {
          sum.copy_(next);
        } else if (sum.is_floating_point()) {
          sum.add_(next);
        } else {
          sum.copy_(at::maximum(sum, next));
        }
      }
    }
    if (sum.is_floating_point()) sum.div_(sharers);
    at::Tensor target = now[i].tensor.detach();
    if (target.is_complex()) target = at::view_as_real(target);
    target.copy_(sum.view(target.sizes()));
    offset += before.nbytes();
  }
}

}  // namespace adaptdl
