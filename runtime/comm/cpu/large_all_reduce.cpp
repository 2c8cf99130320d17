#include "runtime/comm/cpu/large_all_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/comm/cpu/reduce.h"

namespace adaptdl::comm {
namespace {

double divisor_of_lanes(const Layout& layout, Type type, Op op) {
  if (type != Type::f16 || op != Op::average) return 1;
  size_t most = 1;
  for (const std::vector<int>& ranks : layout.hosts) most = std::max(most, ranks.size());
  return static_cast<double>(std::bit_ceil(most));
}

}  // namespace

LargeAllReduce::LargeAllReduce(const Layout& layout, HostGroup& local, Uplink& uplink,
                               uint64_t call, void* data, size_t count, Type type, Op op)
    : layout_(layout),
      local_(local),
      segment_(local.segment()),
      uplink_(uplink),
      call_(call),
      data_(static_cast<uint8_t*>(data)),
      count_(count),
      element_(size_of(type)),
      type_(type),
      op_(op),
      lanes_divisor_(divisor_of_lanes(layout, type, op)),
      hosts_divisor_(op == Op::average ? layout.size / lanes_divisor_ : 1),
      tickets_(segment_.buffers(), 0) {
  // As few rounds as possible, of equal chunks, which begin on a cache line.
  const uint64_t round = layout_.round();
  const size_t most = segment_.chunk_bytes() / element_, line = 64 / element_;
  const uint64_t rounds = (count + most * round - 1) / (most * round);
  per_chunk_ = ((count + rounds * round - 1) / (rounds * round) + line - 1) / line * line;
  chunks_ = rounds * round;
  first_ = local_.take_chunks(chunks_);
}

// Each host begins with the chunks of the next one, so that not all send to the same one, and ends
// each round with its own.
LargeAllReduce::Chunk LargeAllReduce::chunk_at(uint64_t i) const {
  const uint64_t parts = layout_.parts(), round = layout_.round();
  const int owner = layout_.host_at(static_cast<int>(i % round / parts) + 1);
  const uint64_t index =
      (i / round * layout_.hosts.size() + static_cast<uint64_t>(owner)) * parts + i % parts;
  const size_t begin = std::min(count_, index * per_chunk_);
  return {first_ + i, owner, index, begin, std::min(per_chunk_, count_ - begin)};
}

uint8_t* LargeAllReduce::sum_of(const Chunk& chunk) const {
  return alone() ? data_of(chunk) : segment_.result(chunk.number);
}

// The sum of another host is kept beside the chunk of this round that belongs to that host.
uint8_t* LargeAllReduce::sum_from(int host, const Chunk& own) const {
  const auto hosts = layout_.hosts.size();
  const auto later =
      (static_cast<size_t>(layout_.host) + hosts - static_cast<size_t>(host)) % hosts;
  return segment_.extra(own.number - later * layout_.parts());
}

void LargeAllReduce::copy_in(const Chunk& chunk) {
  if (alone()) return;
  local_.wait_free(chunk.number);
  // No lane writes a result before lane 0 has posted, so lane 0 must have sent the old one.
  if (leader()) uplink_.flush(tickets_[chunk.number % segment_.buffers()]);
  std::memcpy(segment_.slot(chunk.number, layout_.lane), data_of(chunk), chunk.count * element_);
  local_.post(chunk.number);
}

void LargeAllReduce::sum_lanes(const Chunk& chunk, const Share& share) {
  if (alone() && lanes_divisor_ == 1) return;
  sources_.clear();
  if (alone()) {
    sources_.push_back(data_of(chunk));
  } else {
    local_.wait_posted_all(chunk.number);
    for (int lane = 0; lane < local_.lanes(); ++lane) {
      sources_.push_back(segment_.slot(chunk.number, lane) + share.begin * element_);
    }
  }
  reduce(sum_of(chunk) + share.begin * element_, nullptr, sources_.data(), local_.lanes(),
         share.end - share.begin, type_, op_, lanes_divisor_);
}

void LargeAllReduce::receive_sums(const Chunk& own) {
  if (!leader()) {
    return local_.wait(0, [&] { return segment_.extra_posted(own.number); });
  }
  for (int host = 0; host < layout_.host_count(); ++host) {
    if (host != layout_.host) receive(own, host, BlockKind::partial, sum_from(host, own));
  }
  segment_.post_extra(own.number);
}

void LargeAllReduce::sum_hosts(const Chunk& own, const Share& share) {
  sources_.clear();
  for (int host = 0; host < layout_.host_count(); ++host) {
    const uint8_t* sum = host == layout_.host ? sum_of(own) : sum_from(host, own);
    sources_.push_back(sum + share.begin * element_);
  }
  reduce(sum_of(own) + share.begin * element_, nullptr, sources_.data(), layout_.host_count(),
         share.end - share.begin, type_, op_, hosts_divisor_);
}

void LargeAllReduce::wait_for_lanes(const Chunk& chunk) {
  for (int lane = 1; lane < local_.lanes(); ++lane) {
    local_.wait(lane, [&] { return segment_.reduced_count(lane) > chunk.number; });
  }
}

void LargeAllReduce::send(const Chunk& chunk, int to, BlockKind kind) {
  if (chunk.count == 0) return;
  tickets_[chunk.number % segment_.buffers()] =
      uplink_.send(to, kind, call_, chunk.index, sum_of(chunk), chunk.count * element_);
}

void LargeAllReduce::receive(const Chunk& chunk, int from, BlockKind kind, uint8_t* to) {
  if (chunk.count == 0) return;
  uplink_.receive(from, kind, call_, chunk.index, to, chunk.count * element_);
}

void LargeAllReduce::reduce_and_send(const Chunk& chunk) {
  const Share share = share_of(chunk.count, element_, layout_.lane, local_.lanes());
  sum_lanes(chunk, share);
  if (owns(chunk)) {
    receive_sums(chunk);
    sum_hosts(chunk, share);
  }
  segment_.reduced(chunk.number, layout_.lane);
  if (!leader()) return;
  wait_for_lanes(chunk);
  if (!owns(chunk)) return send(chunk, chunk.owner, BlockKind::partial);
  for (int distance = 1; distance < layout_.host_count(); ++distance) {
    send(chunk, layout_.host_at(distance), BlockKind::final);
  }
  segment_.post_result(chunk.number);
}

// A result that arrives may overwrite the sum that was sent: its owner has received that.
void LargeAllReduce::copy_out(const Chunk& chunk) {
  if (leader() && !owns(chunk)) {
    receive(chunk, chunk.owner, BlockKind::final, sum_of(chunk));
    segment_.post_result(chunk.number);
  } else {
    local_.wait(0, [&] { return segment_.result_posted(chunk.number); });
  }
  if (!alone()) std::memcpy(data_of(chunk), sum_of(chunk), chunk.count * element_);
  local_.release(chunk.number);
}

void LargeAllReduce::reduce_range(uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    const Chunk chunk = chunk_at(i);
    copy_in(chunk);
    reduce_and_send(chunk);
  }
}

void LargeAllReduce::copy_out_range(uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) copy_out(chunk_at(i));
}

void LargeAllReduce::run() {
  const uint64_t round = layout_.round();
  for (uint64_t begin = 0; begin < chunks_; begin += round) {
    const uint64_t own = begin + round - layout_.parts();
    reduce_range(begin, own);
    if (begin > 0) copy_out_range(begin - round, begin);
    reduce_range(own, begin + round);
  }
  copy_out_range(chunks_ - round, chunks_);
  if (leader()) uplink_.flush_all();
}

}  // namespace adaptdl::comm
