#pragma once

// Reads a replica's samples of a stream, in the order of StreamOrder.
//
// Invariants
//  1. What is returned depends on the request alone. Requests in the order of the pass, as those of
//     a loader, read on; any other begins again at the block that it needs.
//  2. Kept in memory are only samples that this replica has yet to return, as far as it can know,
//     of one block of each lane: less than the shuffle buffer.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/stream_order.h"

namespace adaptdl::data {

// A place in an open shard. One thread at a time.
class ShardCursor {
 public:
  virtual ~ShardCursor() = default;
  virtual std::shared_ptr<void> next() = 0;  // null: the shard is over
  virtual bool skip(int64_t count) = 0;      // false: it is over before
};

// One thread at a time calls open().
struct StreamSource {
  std::vector<int64_t> sizes;  // samples of each shard in a pass, >= 0; their sum is >= 1
  bool endless = false;        // each pass goes on where the one before has ended
  std::function<std::string(int64_t shard)> name;
  std::function<std::unique_ptr<ShardCursor>(int64_t shard, int64_t first)> open;
};

struct StreamSample {
  std::shared_ptr<void> content;
  int64_t number = 0;  // among all samples of the stream, shard by shard
};

class StreamReader {
 public:
  StreamReader(StreamSource source, const StreamOptions& options);

  int64_t samples() const { return samples_; }  // of a pass

  // The samples of these rows, which are places in the pass, ascending. Thread-safe; one at a time
  // reads. Throws what the source throws, and Error if a shard ends before its size.
  std::vector<StreamSample> read(const Dataset::Request& request);

 private:
  struct Lane {
    std::unique_ptr<ShardCursor> cursor;  // of `shard`, before its sample `next`
    int64_t shard = 0, next = 0;
    int64_t head = -1;                     // all before is read or passed over; -1: not begun
    std::map<int64_t, StreamSample> kept;  // by place in the pass
  };
  void begin_pass(const Dataset::Request& request);
  StreamSample take(const Dataset::Request& request, int64_t place,
                    const StreamOrder::LanePlace& at);
  StreamSample read_next(const StreamOrder::LanePlace& at);

  const StreamSource source_;
  const StreamOptions options_;
  std::vector<int64_t> begins_;  // of each shard, in samples from the first one's start
  int64_t samples_ = 0;

  std::mutex mutex_;
  uint64_t seed_ = 0;
  Position pass_;  // of order_
  std::optional<StreamOrder> order_;
  std::vector<Lane> lanes_;
};

}  // namespace adaptdl::data
