#include "runtime/data/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace adaptdl::data {

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch, uint64_t pass)
    : size_(static_cast<uint64_t>(size)) {
  ADAPTDL_CHECK(size >= 1);
  // The smallest left with left^2 >= size; the floating-point guess may be slightly off.
  left_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(size_)));
  while (left_ > 1 && (left_ - 1) * (left_ - 1) >= size_) --left_;
  while (left_ * left_ < size_) ++left_;
  right_ = (size_ + left_ - 1) / left_;
  uint64_t key = splitmix64(splitmix64(splitmix64(seed) ^ epoch) ^ pass);
  for (auto& round : keys_) round = key = splitmix64(key);
}

int64_t Permutation::operator()(int64_t i) const {
  auto value = static_cast<uint64_t>(i);
  // A permutation of [0, left * right) restricted to [0, size): skip outside elements of its
  // cycles.
  do {
    uint64_t a = value % left_, b = value / left_;
    for (int round = 0; round < kRounds; round += 2) {
      a += reduce(splitmix64(keys_[static_cast<size_t>(round)] ^ b), left_);
      if (a >= left_) a -= left_;
      b += reduce(splitmix64(keys_[static_cast<size_t>(round) + 1] ^ a), right_);
      if (b >= right_) b -= right_;
    }
    value = b * left_ + a;
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

int64_t Permutation::inverse(int64_t of) const {
  auto value = static_cast<uint64_t>(of);
  do {
    uint64_t a = value % left_, b = value / left_;
    for (int round = kRounds - 2; round >= 0; round -= 2) {
      b += right_ - reduce(splitmix64(keys_[static_cast<size_t>(round) + 1] ^ a), right_);
      if (b >= right_) b -= right_;
      a += left_ - reduce(splitmix64(keys_[static_cast<size_t>(round)] ^ b), left_);
      if (a >= left_) a -= left_;
    }
    value = b * left_ + a;
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

Position next_pass(const Position& at) {
  return {at.epoch, at.pass + 1, 0, at.passes + 1};
}

Position next_epoch(const Position& at) {
  return {at.epoch + 1, 0, 0, at.passes + 1};
}

uint64_t sample_seed(uint64_t seed, const Position& pass, int64_t sample) {
  const uint64_t of_pass = splitmix64(splitmix64(splitmix64(seed) ^ pass.epoch) ^ pass.pass);
  return splitmix64(of_pass ^ static_cast<uint64_t>(sample));
}

ShardRange shards_of(int shards, int replicas, int rank) {
  ADAPTDL_CHECK(shards >= 1 && replicas >= 1 && rank >= 0 && rank < replicas);
  // Rounded up, so that rank 0 has some.
  const auto first = [&](int64_t of) {
    return static_cast<int>((of * shards + replicas - 1) / replicas);
  };
  return {first(rank), first(rank + 1) - first(rank)};
}

Sampler::Sampler(int64_t samples, SamplerOptions options) : samples_(samples), options_(options) {
  ADAPTDL_CHECK(samples >= 1);
}

Step Sampler::step(const Position& position, int replicas, int rank, int64_t atomic_batch,
                   bool more) const {
  ADAPTDL_CHECK(replicas >= 1 && rank >= 0 && rank < replicas);
  ADAPTDL_CHECK(atomic_batch >= 1 && position.index >= 0);
  const int64_t k = replicas;
  // Limits a micro-batch to the whole data; otherwise K m could overflow.
  const int64_t m = std::min(atomic_batch, (samples_ + k - 1) / k);
  Step step = begin(position, rank, k * m);
  if (step.ends_pass) return step;
  if (options_.continuous) {
    return continuous_step(step, k, std::clamp<int64_t>(samples_ / k, 1, m));
  }
  step.consumed = std::min(k * m, samples_ - step.from.index);
  if (atomic_batch >= 2) {
    const int64_t behind = step.from.index + step.consumed;
    if (more && samples_ - behind == 1 && !over(behind, k * m)) step.consumed += m > 2 ? -1 : 1;
  }
  return share(step, k, atomic_batch >= 2, k * m);
}

Step Sampler::shard(const Position& position, int shards, int shard, int64_t batch) const {
  ADAPTDL_CHECK(shards >= 1 && shard >= 0 && shard <= shards);
  ADAPTDL_CHECK(batch >= 1 && position.index >= 0 && !options_.continuous);
  const int64_t whole = std::min(batch, samples_);
  Step step = begin(position, shard, whole);
  if (step.ends_pass) return step;
  step.consumed = std::min(whole, samples_ - step.from.index);
  return share(step, shards, batch > shards, whole);
}

// Whether the pass has no micro-batch of `whole` samples at `index`.
bool Sampler::over(int64_t index, int64_t whole) const {
  return index >= samples_ || (options_.drop_last && index > 0 && samples_ - index < whole);
}

// Where the micro-batch at `position` begins; it ends the pass if there is none.
Step Sampler::begin(const Position& position, int rank, int64_t whole) const {
  Step step;
  step.rank = rank;
  step.from = step.next = position;
  if (!over(position.index, whole)) return step;
  if (options_.after == AfterPass::stop) {
    step.from.index = step.next.index = samples_;
    step.ends_pass = true;
  } else {
    step.from = following_pass(position);
  }
  return step;
}

// Shares the samples of `step` out among `most` or fewer. `pairs`: two or more for each.
Step Sampler::share(Step step, int64_t most, bool pairs, int64_t whole) const {
  const int64_t sharers =
      pairs ? std::clamp<int64_t>(step.consumed / 2, 1, most) : std::min(most, step.consumed);
  step.sharers = static_cast<int>(sharers);
  step.samples = step.rank < sharers ? (step.consumed - step.rank + sharers - 1) / sharers : 0;
  const int64_t end = step.from.index + step.consumed;
  step.next = step.from;
  step.next.index = end;
  step.ends_pass = over(end, whole);
  if (step.ends_pass) {
    step.next.index = samples_;
    if (options_.after != AfterPass::stop) step.next = following_pass(step.from);
  }
  return step;
}

Position Sampler::following_pass(const Position& at) const {
  return options_.after == AfterPass::next_pass ? next_pass(at) : next_epoch(at);
}

// `step`: its replica, and where it is in the pass. With fewer samples than replicas some get none.
Step Sampler::continuous_step(Step step, int64_t replicas, int64_t atomic) const {
  const int64_t sharers = std::min(replicas, samples_);
  const int64_t batch = sharers * atomic, rows = samples_ / batch;
  const int64_t row = std::min(step.from.index / batch, rows - 1);
  step.from.index = row * batch;
  step.consumed = batch;
  step.sharers = static_cast<int>(sharers);
  step.samples = step.rank < sharers ? atomic : 0;
  step.next = step.from;
  step.next.index += batch;
  step.ends_pass = row + 1 == rows;
  if (step.ends_pass) {
    step.next.index = samples_;
    if (options_.after != AfterPass::stop) step.next = following_pass(step.from);
  }
  return step;
}

std::vector<int64_t> Sampler::indices(const Step& step) const {
  std::vector<int64_t> result(static_cast<size_t>(step.samples));
  if (options_.continuous) {
    const int64_t rows = samples_ / step.consumed;
    int64_t column = step.rank * step.samples;
    for (auto& index : result) index = column++ * rows + step.from.index / step.consumed;
    return result;
  }
  const Permutation permutation(samples_, options_.seed, step.from.epoch, step.from.pass);
  int64_t place = step.from.index + step.rank;
  for (auto& index : result) {
    index = options_.shuffle ? permutation(place) : place;
    place += step.sharers;
  }
  return result;
}

}  // namespace adaptdl::data
