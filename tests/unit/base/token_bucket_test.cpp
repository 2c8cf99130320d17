#include "core/base/token_bucket.h"

#include <doctest/doctest.h>

namespace adaptdl {
namespace {

TimePoint bucket_at(double seconds) {
  return TimePoint{} + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

}  // namespace

TEST_CASE("a token bucket limits the rate and the burst") {
  TokenBucket bucket(2, 3, bucket_at(0));
  for (int i = 0; i < 3; ++i) CHECK(bucket.take(bucket_at(0)));
  CHECK_FALSE(bucket.take(bucket_at(0)));
  CHECK_FALSE(bucket.take(bucket_at(0.4)));
  CHECK(bucket.take(bucket_at(0.6)));
  CHECK_FALSE(bucket.full(bucket_at(1.9)));
  CHECK(bucket.full(bucket_at(2.1)));
  CHECK(bucket.full(bucket_at(1000)));  // it holds no more than its burst
  for (int i = 0; i < 3; ++i) CHECK(bucket.reserve(bucket_at(1000)) == Seconds(0));
  CHECK(bucket.reserve(bucket_at(1000)) == Seconds(0.5));
  CHECK(bucket.reserve(bucket_at(1000)) == Seconds(1));
  CHECK(bucket.reserve(bucket_at(1001)) == Seconds(0.5));
}

}  // namespace adaptdl
