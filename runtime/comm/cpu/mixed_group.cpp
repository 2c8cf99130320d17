#include "runtime/comm/cpu/mixed_group.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/cpu/large_all_reduce.h"
#include "runtime/comm/cpu/reduce.h"

namespace adaptdl::comm {
namespace {

// Up to this total of all ranks' bytes, an all_reduce gathers everything on every rank.
constexpr size_t kSmallSum = 64 << 10;

}  // namespace

MixedGroup::MixedGroup(const Layout& layout, HostGroup& local, Uplink& uplink)
    : layout_(layout), local_(local), segment_(local.segment()), uplink_(uplink) {}

void MixedGroup::begin(const Tag& tag) {
  call_ = tag.call;
  local_.begin(tag);
}

// Leaders only. `blocks` holds this host's block; appends those of the following hosts around the
// ring.
void MixedGroup::exchange(BlockKind kind, size_t rank_bytes, std::vector<uint8_t>& blocks) {
  const int hosts = layout_.host_count();
  // Bytes of `number` blocks, starting with that of host `first`.
  const auto bytes_of = [&](int first, int number) {
    size_t bytes = 0;
    for (int i = 0; i < number; ++i) bytes += host_size((first + i) % hosts) * rank_bytes;
    return bytes;
  };
  size_t filled = blocks.size();
  blocks.resize(bytes_of(layout_.host, hosts));
  uint64_t round = 0;
  for (int distance = 1; distance < hosts; distance *= 2, ++round) {
    const int number = std::min(distance, hosts - distance);
    const int from = layout_.host_at(distance);
    const uint64_t ticket = uplink_.send(layout_.host_at(-distance), kind, call_, round,
                                         blocks.data(), bytes_of(layout_.host, number));
    const size_t bytes = bytes_of(from, number);
    uplink_.receive(from, kind, call_, round, blocks.data() + filled, bytes);
    filled += bytes;
    uplink_.flush(ticket);
  }
}

std::vector<uint8_t> MixedGroup::gather(const void* mine, size_t bytes) {
  const size_t total = static_cast<size_t>(layout_.size) * bytes;
  std::vector<uint8_t> blocks(host_size(layout_.host) * bytes);
  if (local_.lanes() > 1) {
    local_.all_gather(mine, bytes, blocks.data());
  } else if (bytes > 0) {
    std::memcpy(blocks.data(), mine, bytes);
  }
  if (leader()) {
    exchange(BlockKind::gather, bytes, blocks);
    // Rotates the order from "this host first" to "host 0 first".
    size_t before = 0;
    for (int host = 0; host < layout_.host; ++host) before += host_size(host) * bytes;
    std::rotate(blocks.begin(), blocks.end() - static_cast<std::ptrdiff_t>(before), blocks.end());
  } else {
    blocks.resize(total);
  }
  if (local_.lanes() > 1) local_.broadcast(blocks.data(), total, 0, true);
  return blocks;
}

void MixedGroup::all_gather(const void* mine, size_t bytes, void* all) {
  const std::vector<uint8_t> blocks = gather(mine, bytes);
  if (bytes == 0) return;
  const uint8_t* from = blocks.data();
  for (const auto& ranks : layout_.hosts) {
    for (const int rank : ranks) {
      std::memcpy(static_cast<uint8_t*>(all) + static_cast<size_t>(rank) * bytes, from, bytes);
      from += bytes;
    }
  }
}

void MixedGroup::barrier() {
  if (local_.lanes() > 1) local_.barrier();
  if (leader()) {
    std::vector<uint8_t> nothing;
    exchange(BlockKind::barrier, 0, nothing);
  }
  if (local_.lanes() > 1) local_.barrier();
}

void MixedGroup::all_reduce(void* data, size_t count, Type type, Op op) {
  const size_t bytes = count * size_of(type);
  if (bytes * static_cast<size_t>(layout_.size) > kSmallSum) {
    LargeAllReduce(layout_, local_, uplink_, call_, data, count, type, op).run();
    return;
  }
  const std::vector<uint8_t> blocks = gather(data, bytes);
  std::vector<const void*> sources(static_cast<size_t>(layout_.size));
  const uint8_t* from = blocks.data();
  for (const auto& ranks : layout_.hosts) {
    for (const int rank : ranks) {
      sources[static_cast<size_t>(rank)] = from;
      from += bytes;
    }
  }
  reduce(data, nullptr, sources.data(), layout_.size, count, type, op,
         op == Op::average ? layout_.size : 1);
}

void MixedGroup::broadcast(void* data, size_t bytes, int root, bool keep) {
  const size_t chunk_bytes = segment_.chunk_bytes();
  const uint64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const uint64_t first = local_.take_chunks(chunks);
  const int hosts = layout_.host_count();
  int root_host = 0;
  while (std::ranges::count(layout_.hosts[static_cast<size_t>(root_host)], root) == 0) ++root_host;
  const auto& root_ranks = layout_.hosts[static_cast<size_t>(root_host)];

  // This host's place in the chain of hosts, counted from the root's host.
  const int place = (layout_.host - root_host + hosts) % hosts;
  int parent = -1;
  std::vector<int> children;
  if (chunks > 1) {
    if (place > 0) parent = place - 1;
    if (place + 1 < hosts) children.push_back(place + 1);
  } else {
    int bit = 1;
    while (bit < hosts && (place & bit) == 0) bit *= 2;
    if (place > 0) parent = place - bit;
    for (bit /= 2; bit >= 1; bit /= 2) {
      if (place + bit < hosts) children.push_back(place + bit);
    }
  }
  const auto host_of = [&](int there) { return (there + root_host) % hosts; };

  // The lane that writes the chunks to this host's memory: the root, or the leader.
  const int source =
      place == 0 ? static_cast<int>(std::ranges::find(root_ranks, root) - root_ranks.begin()) : 0;
  const bool is_root = layout_.rank == root;
  auto* const to = static_cast<uint8_t*>(data);
  unsent_.clear();
  const auto settle_one = [&] {
    uplink_.flush(unsent_.front().second);
    local_.release(unsent_.front().first);
    unsent_.pop_front();
  };
  for (uint64_t i = 0; i < chunks; ++i) {
    const uint64_t chunk = first + i;
    const size_t length = std::min(chunk_bytes, bytes - i * chunk_bytes);
    uint8_t* const slot = segment_.slot(chunk, source);
    while (unsent_.size() > segment_.buffers() / 2) settle_one();
    if (layout_.lane == source) {
      local_.wait_free(chunk);
      if (is_root) {
        std::memcpy(slot, to + i * chunk_bytes, length);
      } else {
        uplink_.receive(host_of(parent), BlockKind::broadcast, call_, i, slot, length);
      }
      local_.post(chunk);
    } else {
      local_.wait_posted(chunk, source);
    }
    uint64_t ticket = 0;
    if (leader()) {
      for (const int child : children) {
        ticket = uplink_.send(host_of(child), BlockKind::broadcast, call_, i, slot, length);
      }
    }
    if (keep && !is_root) std::memcpy(to + i * chunk_bytes, slot, length);
    if (ticket != 0) {
      unsent_.emplace_back(chunk, ticket);  // the slot is still being read
    } else {
      local_.release(chunk);
    }
  }
  while (!unsent_.empty()) settle_one();
}

}  // namespace adaptdl::comm
