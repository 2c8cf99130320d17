#include "runtime/comm/cpu/host_group.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "runtime/comm/cpu/reduce.h"

namespace adaptdl::comm {
namespace {

// Up to this total of all lanes' bytes, every lane reduces everything itself: one exchange instead
// of two.
constexpr size_t kSmallTotal = 64 << 10;

const char* name_of_kind(uint8_t kind) {
  static constexpr const char* kNames[] = {"none", "all_reduce", "broadcast", "all_gather",
                                           "barrier"};
  return kind < std::size(kNames) ? kNames[kind] : "unknown";
}

std::string describe(const Tag& tag) {
  return fmt::format("collective {}: {} of {} bytes (type {}, op {}, root {})", tag.call,
                     name_of_kind(tag.kind), tag.bytes, tag.type, tag.op, tag.root);
}

}  // namespace

Share share_of(size_t count, size_t element_bytes, int lane, int lanes) {
  const size_t unit = 64 / element_bytes;
  const size_t units = (count + unit - 1) / unit;
  const auto edge = [&](int i) {
    return std::min(count, units * static_cast<size_t>(i) / static_cast<size_t>(lanes) * unit);
  };
  return {edge(lane), edge(lane + 1)};
}

HostGroup::HostGroup(Segment& segment, const std::vector<int>& ranks, int lane,
                     const AbortSignal& over, int64_t spin_ns)
    : segment_(segment),
      ranks_(ranks),
      lane_(lane),
      over_(over),
      spin_(spin_ns),
      seen_released_(static_cast<size_t>(segment.lanes())),
      sources_(static_cast<size_t>(segment.lanes()) + 1) {}

void HostGroup::ended(int lane) {
  if (over_.aborted()) throw Aborted(over_.reason());
  if (segment_.aborted()) throw Aborted(segment_.abort_text());
  throw Aborted(fmt::format("generation {}: rank {} is gone", segment_.offer().generation,
                            ranks_[static_cast<size_t>(lane)]));
}

void HostGroup::mismatch(int lane, const Tag& theirs) {
  fail("generation {}: members have called different collectives: rank {} is in {}, rank {} in {}",
       tag_.generation, ranks_[static_cast<size_t>(lane_)], describe(tag_),
       ranks_[static_cast<size_t>(lane)], describe(theirs));
}

uint64_t HostGroup::take_chunks(uint64_t count) {
  const uint64_t first = next_chunk_;
  next_chunk_ += count;
  return first;
}

void HostGroup::wait_free(uint64_t chunk) {
  const uint64_t buffers = segment_.buffers();
  if (chunk < buffers) return;
  for (int lane = 0; lane < lanes(); ++lane) {
    if (lane == lane_) continue;
    uint64_t& seen = seen_released_[static_cast<size_t>(lane)];
    if (seen + buffers > chunk) continue;
    wait(lane, [&] {
      seen = segment_.released_count(lane);
      return seen + buffers > chunk;
    });
  }
}

void HostGroup::wait_posted(uint64_t chunk, int lane) {
  wait(lane, [&] { return segment_.posted(chunk, lane); });
  const Tag& theirs = segment_.tag(chunk, lane);
  if (!(theirs == tag_)) mismatch(lane, theirs);
}

void HostGroup::wait_posted_all(uint64_t chunk) {
  for (int lane = 0; lane < lanes(); ++lane) {
    if (lane != lane_) wait_posted(chunk, lane);
  }
}

void HostGroup::all_reduce(void* data, size_t count, Type type, Op op, int divisor) {
  const size_t bytes = count * size_of(type);
  const bool small =
      bytes * static_cast<size_t>(lanes()) <= kSmallTotal && bytes <= segment_.chunk_bytes();
  if (small) {
    all_reduce_small(data, count, type, op, divisor);
  } else {
    all_reduce_large(data, count, type, op, divisor);
  }
}

void HostGroup::all_reduce_small(void* data, size_t count, Type type, Op op, int divisor) {
  const uint64_t chunk = take_chunks(1);
  wait_free(chunk);
  if (count > 0) std::memcpy(segment_.slot(chunk, lane_), data, count * size_of(type));
  post(chunk);
  wait_posted_all(chunk);
  for (int lane = 0; lane < lanes(); ++lane) {
    sources_[static_cast<size_t>(lane)] = lane == lane_ ? data : segment_.slot(chunk, lane);
  }
  reduce(data, nullptr, sources_.data(), lanes(), count, type, op, divisor);
  release(chunk);
}

void HostGroup::all_reduce_large(void* data, size_t count, Type type, Op op, int divisor) {
  const size_t element = size_of(type);
  const size_t per_chunk = segment_.chunk_bytes() / element;
  const uint64_t chunks = (count + per_chunk - 1) / per_chunk;
  const uint64_t first = take_chunks(chunks);
  auto* const bytes = static_cast<uint8_t*>(data);

  struct Part {
    uint8_t* data;
    size_t count;
    size_t begin, end;  // this lane's share, in bytes
  };
  const auto part = [&](uint64_t i) {
    const size_t n = std::min(per_chunk, count - i * per_chunk);
    const Share share = share_of(n, element, lane_, lanes());
    return Part{bytes + i * per_chunk * element, n * element, share.begin * element,
                share.end * element};
  };
  // Copies the parts that others reduce into the slot.
  const auto copy_in = [&](uint64_t i) {
    const Part p = part(i);
    wait_free(first + i);
    uint8_t* slot = segment_.slot(first + i, lane_);
    std::memcpy(slot, p.data, p.begin);
    std::memcpy(slot + p.end, p.data + p.end, p.count - p.end);
    post(first + i);
  };
  const auto reduce_share = [&](uint64_t i) {
    const Part p = part(i);
    wait_posted_all(first + i);
    for (int lane = 0; lane < lanes(); ++lane) {
      const uint8_t* from = lane == lane_ ? p.data : segment_.slot(first + i, lane);
      sources_[static_cast<size_t>(lane)] = from + p.begin;
    }
    reduce(p.data + p.begin, segment_.result(first + i) + p.begin, sources_.data(), lanes(),
           (p.end - p.begin) / element, type, op, divisor);
    segment_.reduced(first + i, lane_);
  };
  const auto copy_out = [&](uint64_t i) {
    const Part p = part(i);
    const uint8_t* result = segment_.result(first + i);
    for (int step = 1; step < lanes(); ++step) {
      const int lane = (lane_ + step) % lanes();  // avoids that all read the same lane at once
      wait(lane, [&] { return segment_.reduced_count(lane) > first + i; });
      const Share share = share_of(p.count / element, element, lane, lanes());
      std::memcpy(p.data + share.begin * element, result + share.begin * element,
                  (share.end - share.begin) * element);
    }
    release(first + i);
  };
  // Each step waits for the others' work of the previous iteration.
  for (uint64_t i = 0; i < chunks + 2; ++i) {
    if (i < chunks) copy_in(i);
    if (i >= 1 && i - 1 < chunks) reduce_share(i - 1);
    if (i >= 2) copy_out(i - 2);
  }
}

void HostGroup::all_gather(const void* mine, size_t bytes, void* all) {
  const size_t chunk_bytes = segment_.chunk_bytes();
  const uint64_t chunks = std::max<uint64_t>((bytes + chunk_bytes - 1) / chunk_bytes, 1);
  const uint64_t first = take_chunks(chunks);
  const auto* const from = static_cast<const uint8_t*>(mine);
  auto* const to = static_cast<uint8_t*>(all);
  const auto length = [&](uint64_t i) { return std::min(chunk_bytes, bytes - i * chunk_bytes); };
  const auto copy_in = [&](uint64_t i) {
    wait_free(first + i);
    if (bytes > 0) std::memcpy(segment_.slot(first + i, lane_), from + i * chunk_bytes, length(i));
    post(first + i);
  };
  const auto copy_out = [&](uint64_t i) {
    for (int step = 1; step < lanes(); ++step) {
      const int lane = (lane_ + step) % lanes();
      wait_posted(first + i, lane);
      if (bytes == 0) continue;
      std::memcpy(to + static_cast<size_t>(lane) * bytes + i * chunk_bytes,
                  segment_.slot(first + i, lane), length(i));
    }
    release(first + i);
  };
  uint8_t* const own = to + static_cast<size_t>(lane_) * bytes;
  for (uint64_t i = 0; i < chunks + 1; ++i) {
    if (i < chunks) copy_in(i);
    if (i >= 1) copy_out(i - 1);
  }
  if (bytes > 0 && own != from) std::memcpy(own, from, bytes);
}

void HostGroup::broadcast(void* data, size_t bytes, int root, bool keep) {
  const size_t chunk_bytes = segment_.chunk_bytes();
  const uint64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const uint64_t first = take_chunks(chunks);
  auto* const to = static_cast<uint8_t*>(data);
  for (uint64_t i = 0; i < chunks; ++i) {
    const size_t length = std::min(chunk_bytes, bytes - i * chunk_bytes);
    if (lane_ == root) {
      wait_free(first + i);
      std::memcpy(segment_.slot(first + i, lane_), to + i * chunk_bytes, length);
      post(first + i);
    } else {
      wait_posted(first + i, root);
      if (keep) {
        std::memcpy(to + i * chunk_bytes, segment_.slot(first + i, root), length);
      }
    }
    release(first + i);
  }
}

void HostGroup::barrier() {
  all_gather(nullptr, 0, nullptr);
}

}  // namespace adaptdl::comm
