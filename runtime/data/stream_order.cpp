#include "runtime/data/stream_order.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace adaptdl::data {

StreamOrder::StreamOrder(const std::vector<int64_t>& sizes, const StreamOptions& options,
                         uint64_t seed, const Position& pass)
    : seed_(splitmix64(seed)), pass_(pass) {
  std::vector<int64_t> shards;
  const auto count = static_cast<int64_t>(sizes.size());
  if (options.shuffle && count > 0) {
    const Permutation order(count, seed, pass.epoch, pass.pass);
    for (int64_t i = 0; i < count; ++i) shards.push_back(order(i));
  } else {
    for (int64_t i = 0; i < count; ++i) shards.push_back(i);
  }
  std::erase_if(shards, [&](int64_t shard) { return sizes[static_cast<size_t>(shard)] == 0; });
  ADAPTDL_CHECK(!shards.empty());
  const auto at_once = static_cast<size_t>(options.shuffle ? options.shards_at_once : 1);
  lanes_.resize(std::min(at_once, shards.size()));
  for (const int64_t shard : shards) {
    Lane& shortest =
        *std::min_element(lanes_.begin(), lanes_.end(),
                          [](const Lane& a, const Lane& b) { return a.samples < b.samples; });
    const int64_t size = sizes[static_cast<size_t>(shard)];
    ADAPTDL_CHECK(size > 0);
    shortest.samples += size;
    samples_ += size;
    shortest.shards.push_back(shard);
    shortest.ends.push_back(shortest.samples);
  }
  if (options.shuffle) {
    const auto lanes = static_cast<int64_t>(lanes_.size());
    block_ = (options.shuffle_buffer + lanes - 1) / lanes;
  }
  for (Stretch next; next.first_place < samples_;) {
    int64_t end = samples_;
    next.lanes.clear();
    for (int lane = 0; lane < this->lanes(); ++lane) {
      const int64_t has = lanes_[static_cast<size_t>(lane)].samples;
      if (has <= next.first_round) continue;
      next.lanes.push_back(lane);
      end = std::min(end, has);
    }
    stretches_.push_back(next);
    next.first_place += (end - next.first_round) * static_cast<int64_t>(next.lanes.size());
    next.first_round = end;
  }
}

StreamOrder::Block StreamOrder::block_of(const LanePlace& at) const {
  const int64_t samples = lanes_[static_cast<size_t>(at.lane)].samples;
  if (block_ <= 1) return {at.at, at.at + 1, 0};
  // The first block of a lane is shorter, of each by another length.
  const int64_t first = std::max<int64_t>(1, block_ * (at.lane + 1) / lanes());
  Block block;
  int64_t number = 0;
  block.end = first;
  if (at.at >= first) {
    number = 1 + (at.at - first) / block_;
    block.begin = first + (number - 1) * block_;
    block.end = block.begin + block_;
  }
  block.end = std::min(block.end, samples);
  const auto lane = static_cast<uint64_t>(at.lane);
  block.seed = splitmix64(splitmix64(seed_ ^ lane) ^ static_cast<uint64_t>(number));
  return block;
}

StreamOrder::LanePlace StreamOrder::lane_place(int64_t place) const {
  const auto stretch =
      std::upper_bound(stretches_.begin(), stretches_.end(), place,
                       [](int64_t p, const Stretch& s) { return p < s.first_place; }) -
      1;
  const auto width = static_cast<int64_t>(stretch->lanes.size());
  const int64_t within = place - stretch->first_place;
  LanePlace at{stretch->lanes[static_cast<size_t>(within % width)],
               stretch->first_round + within / width};
  const Block block = block_of(at);
  if (block.end - block.begin > 1) {
    const Permutation order(block.end - block.begin, block.seed, pass_.epoch, pass_.pass);
    at.at = block.begin + order(at.at - block.begin);
  }
  return at;
}

int64_t StreamOrder::place(const LanePlace& at) const {
  int64_t round = at.at;
  const Block block = block_of(at);
  if (block.end - block.begin > 1) {
    const Permutation order(block.end - block.begin, block.seed, pass_.epoch, pass_.pass);
    round = block.begin + order.inverse(at.at - block.begin);
  }
  const auto stretch =
      std::upper_bound(stretches_.begin(), stretches_.end(), round,
                       [](int64_t r, const Stretch& s) { return r < s.first_round; }) -
      1;
  const auto& lanes = stretch->lanes;
  const auto number = std::find(lanes.begin(), lanes.end(), at.lane) - lanes.begin();
  return stretch->first_place +
         (round - stretch->first_round) * static_cast<int64_t>(lanes.size()) + number;
}

StreamOrder::ShardPlace StreamOrder::shard_place(const LanePlace& at) const {
  const Lane& lane = lanes_[static_cast<size_t>(at.lane)];
  const auto end = std::upper_bound(lane.ends.begin(), lane.ends.end(), at.at);
  const auto number = static_cast<size_t>(end - lane.ends.begin());
  return {lane.shards[number], at.at - (number == 0 ? 0 : lane.ends[number - 1])};
}

}  // namespace adaptdl::data
