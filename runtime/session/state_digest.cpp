#include "runtime/session/state_digest.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/ranges.h>
#include <map>

#include "core/base/rng.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// A bijection of `hash` for each word, and of the word for each hash.
void mix(uint64_t& hash, uint64_t word) {
  hash = (hash ^ word) * kGolden;
  hash ^= hash >> 32;
}

uint64_t digest(const std::byte* bytes, size_t count, uint64_t hash) {
  // Four independent sums, because a multiplication takes several cycles.
  std::array<uint64_t, 4> lanes{hash, 1, 2, 3};
  constexpr size_t kBlock = sizeof lanes;
  for (; count >= kBlock; bytes += kBlock, count -= kBlock) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), bytes, kBlock);
    for (size_t i = 0; i < words.size(); ++i) mix(lanes[i], words[i]);
  }
  std::array<uint64_t, 4> rest{};
  std::memcpy(rest.data(), bytes, count);
  for (const uint64_t word : rest) mix(lanes[0], word);
  uint64_t result = 0;
  for (const uint64_t lane : lanes) mix(result, lane);
  return result;
}

// Bytes [begin, end) of a contiguous tensor.
uint64_t digest(const at::Tensor& tensor, int64_t begin, int64_t end, uint64_t hash) {
  if (tensor.device().is_cpu()) {
    return digest(static_cast<const std::byte*>(tensor.const_data_ptr()) + begin,
                  static_cast<size_t>(end - begin), hash);
  }
  const at::Tensor bytes = tensor.flatten().view(at::kByte).narrow(0, begin, end - begin).cpu();
  return digest(static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes(), hash);
}

}  // namespace

int64_t StateDigest::shares() const {
  const int64_t bytes = parts_.empty() ? 0 : parts_.back().end;
  return std::clamp<int64_t>(bytes / kLeastBytes, 1, kShares);
}

StateDigest::Range StateDigest::share(int64_t step) {
  // Once in a round, because some optimizers create their state late.
  if (parts_.empty() || step % shares() == 0) {
    parts_.clear();
    int64_t end = 0;
    for (NamedTensor& named : tensors_()) {
      const int64_t begin = end;
      end += static_cast<int64_t>(named.tensor.nbytes());
      named.tensor = named.tensor.detach();
      parts_.push_back({std::move(named), begin, end});
    }
  }
  if (parts_.empty()) return {};
  const int64_t bytes = parts_.back().end, index = step % shares();
  const auto edge = [&](int64_t i) {
    return static_cast<int64_t>(static_cast<__int128>(bytes) * i / shares());
  };
  return {edge(index), edge(index + 1)};
}

uint64_t StateDigest::of(int64_t step) {
  const Range range = share(step);
  uint64_t hash = 0;
  for (const Part& part : parts_) {
    if (part.end <= range.begin || part.begin >= range.end) continue;
    const at::Tensor& tensor = part.named.tensor;
    if (tensor.is_contiguous()) {
      hash = digest(tensor, std::max(range.begin, part.begin) - part.begin,
                    std::min(range.end, part.end) - part.begin, hash);
    } else if (part.begin >= range.begin) {
      // Its bytes have no order of their own: all of it, in the share with its first byte.
      hash = digest(tensor.contiguous(), 0, part.end - part.begin, hash);
    }
  }
  return hash;
}

std::vector<std::string> StateDigest::names(int64_t step) {
  const Range range = share(step);
  std::vector<std::string> names;
  for (const Part& part : parts_) {
    if (part.end > range.begin && part.begin < range.end) names.push_back(part.named.name);
  }
  return names;
}

std::string fingerprint(const std::vector<NamedTensor>& tensors) {
  if (tensors.empty()) return "";
  uint64_t hash = tensors.size();
  for (const auto& [name, tensor] : tensors) {
    const std::string head =
        fmt::format("{} {} [{}]", name, at::toString(tensor.scalar_type()),
                    fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
    hash = digest(reinterpret_cast<const std::byte*>(head.data()), head.size(), hash);
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes > 0) hash = digest(tensor.detach().contiguous(), 0, bytes, hash);
  }
  return fmt::format("{:016x}", hash);
}

std::vector<int> minority(std::span<const uint64_t> entries) {
  std::map<uint64_t, int> sizes;
  for (const uint64_t entry : entries) ++sizes[entry];
  int largest = 0;
  for (const uint64_t entry : entries) largest = std::max(largest, sizes[entry]);
  const auto right = std::find_if(entries.begin(), entries.end(),
                                  [&](uint64_t entry) { return sizes[entry] == largest; });
  std::vector<int> others;
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    if (entries[rank] != *right) others.push_back(static_cast<int>(rank));
  }
  return others;
}

}  // namespace adaptdl
