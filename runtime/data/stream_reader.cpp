#include "runtime/data/stream_reader.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace adaptdl::data {

StreamReader::StreamReader(StreamSource source, const StreamOptions& options)
    : source_(std::move(source)), options_(options) {
  for (size_t i = 0; i < source_.sizes.size(); ++i) {
    const int64_t size = source_.sizes[i];
    if (size < 0) {
      fail("shard {} of the stream has a size of {}; it must be 0 or more",
           source_.name(static_cast<int64_t>(i)), size);
    }
    begins_.push_back(samples_);
    if (__builtin_add_overflow(samples_, size, &samples_)) fail("the stream has too many samples");
  }
  if (samples_ < 1) fail("the stream has no samples in its {} shards", source_.sizes.size());
}

void StreamReader::begin_pass(const Dataset::Request& request) {
  order_.emplace(source_.sizes, options_, request.seed, request.pass);
  seed_ = request.seed;
  pass_ = request.pass;
  lanes_ = std::vector<Lane>(static_cast<size_t>(order_->lanes()));
}

std::vector<StreamSample> StreamReader::read(const Dataset::Request& request) {
  std::lock_guard lock(mutex_);
  const Position& pass = request.pass;
  if (!order_ || request.seed != seed_ || pass.epoch != pass_.epoch || pass.pass != pass_.pass ||
      pass.passes != pass_.passes) {
    begin_pass(request);
  }
  struct Wanted {
    StreamOrder::LanePlace at;
    size_t row;
  };
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < request.rows.size(); ++i) {
    wanted.push_back({order_->lane_place(request.rows[i]), i});
  }
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::pair(a.at.lane, a.at.at) < std::pair(b.at.lane, b.at.at);
  });
  for (Lane& lane : lanes_) {
    lane.kept.erase(lane.kept.begin(), lane.kept.lower_bound(request.rows.front()));
  }
  std::vector<StreamSample> samples(request.rows.size());
  try {
    for (const Wanted& one : wanted) {
      samples[one.row] = take(request, request.rows[one.row], one.at);
    }
  } catch (...) {
    order_.reset();  // where the cursors stand is not known
    throw;
  }
  return samples;
}

StreamSample StreamReader::take(const Dataset::Request& request, int64_t place,
                                const StreamOrder::LanePlace& at) {
  Lane& lane = lanes_[static_cast<size_t>(at.lane)];
  if (const auto kept = lane.kept.extract(place)) return std::move(kept.mapped());
  const int64_t begin = order_->block_begin(at);
  if (at.at < lane.head) {  // a rescale has given this replica what it has passed over
    lane.kept.clear();
    lane.head = begin;
  }
  // What comes before in the block, this replica may need later. Blocks before have been asked for.
  for (int64_t i = std::max(lane.head, begin); i < at.at; ++i) {
    const int64_t later = order_->place({at.lane, i});
    const int64_t distance = later - request.rows.front();
    if (distance < 0 || distance % request.stride != 0) continue;
    lane.kept.emplace(later, read_next({at.lane, i}));
  }
  lane.head = at.at + 1;
  return read_next(at);
}

// The sample `at`, for which the lane's cursor moves forward, or is opened.
StreamSample StreamReader::read_next(const StreamOrder::LanePlace& at) {
  Lane& lane = lanes_[static_cast<size_t>(at.lane)];
  const auto [shard, sample] = order_->shard_place(at);
  const auto number = static_cast<size_t>(shard);
  const int64_t size = source_.sizes[number];
  const auto passes = source_.endless ? static_cast<int64_t>(pass_.passes) : 0;
  if (!lane.cursor || lane.shard != shard || lane.next > sample) {
    lane.cursor.reset();  // no more files are open than there are lanes
    lane.cursor = source_.open(shard, passes * size + sample);
    lane.shard = shard;
    lane.next = sample;
  }
  const bool there = lane.next == sample || lane.cursor->skip(sample - lane.next);
  std::shared_ptr<void> content = there ? lane.cursor->next() : nullptr;
  if (!content) {
    fail("shard {} of the stream ended before sample {}, but its size is {}; correct the size",
         source_.name(shard), passes * size + sample,
         source_.endless ? "endless" : std::to_string(size));
  }
  lane.next = sample + 1;
  return {std::move(content), begins_[number] + sample};
}

}  // namespace adaptdl::data
