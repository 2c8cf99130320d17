#include "runtime/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <numeric>
#include <random>
#include <set>

using namespace adaptdl::data;

namespace {

// One pass with a random membership, batch and accumulation at every step; how often each sample
// was read, over all replicas.
struct Pass {
  std::map<int64_t, int> read;
  std::vector<int64_t> order;  // in the order of the pass
  int64_t steps = 0;
};

Pass run_pass(const Sampler& sampler, Position position, std::mt19937_64& random) {
  Pass pass;
  int replicas = 1, micro = 0, micro_batches = 0;  // of the present step
  int64_t batch = 1;
  for (;; ++micro) {
    if (micro == micro_batches) {
      replicas = static_cast<int>(random() % 7) + 1;
      batch = static_cast<int64_t>(random() % 20) + 1;
      micro = 0;
      micro_batches = static_cast<int>(random() % 3) + 1;
    }
    const bool more = micro + 1 < micro_batches;
    std::vector<std::vector<int64_t>> each;
    Step first;
    int64_t total = 0;
    for (int rank = 0; rank < replicas; ++rank) {
      const Step step = sampler.step(position, replicas, rank, batch, more);
      if (rank == 0) first = step;
      CHECK(step.consumed == first.consumed);
      CHECK(step.sharers == first.sharers);
      CHECK(step.next == first.next);
      CHECK(step.ends_pass == first.ends_pass);
      if (rank < first.sharers) {
        CHECK(step.samples <= first.samples);
        CHECK(step.samples >= first.samples - 1);
        CHECK(step.samples <= (batch == 2 ? 3 : batch));
      } else {
        CHECK(step.samples == 0);
      }
      // One sample alone: of a batch of one, or of a step that has no other.
      if (step.samples == 1 && batch >= 2) {
        CHECK(step.consumed == 1);
        CHECK(micro == 0);
        CHECK(step.ends_pass);
      }
      each.push_back(sampler.indices(step));
      REQUIRE(static_cast<int64_t>(each.back().size()) == step.samples);
      for (const int64_t sample : each.back()) ++pass.read[sample];
      total += step.samples;
    }
    CHECK(total == first.consumed);
    if (total == 0) return pass;
    ++pass.steps;
    for (size_t i = 0; i < static_cast<size_t>(total); ++i) {
      pass.order.push_back(
          each[i % static_cast<size_t>(first.sharers)][i / static_cast<size_t>(first.sharers)]);
    }
    if (first.next.pass != position.pass || first.next.epoch != position.epoch) return pass;
    position = first.next;
  }
}

}  // namespace

TEST_CASE("a permutation maps every size onto itself") {
  for (const int64_t size : {1, 2, 3, 4, 5, 6, 7, 10, 63, 64, 65, 1437, 10007, 100000}) {
    const Permutation permutation(size, 7, 3, 1);
    std::vector<bool> seen(static_cast<size_t>(size), false);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t to = permutation(i);
      REQUIRE(to >= 0);
      REQUIRE(to < size);
      CHECK_FALSE(seen[static_cast<size_t>(to)]);
      CHECK(permutation.inverse(to) == i);
      seen[static_cast<size_t>(to)] = true;
    }
  }
  const Permutation huge(int64_t{1} << 62, 1, 0, 0);
  CHECK(huge(5) >= 0);
  CHECK(huge(5) != huge(6));
}

TEST_CASE("a permutation's numbers stay as they are: checkpoints depend on them") {
  const Permutation permutation(10, 1, 2, 3);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 10; ++i) order.push_back(permutation(i));
  CHECK(order == std::vector<int64_t>{2, 0, 4, 8, 6, 5, 9, 1, 3, 7});
}

TEST_CASE("permutations are even: each sample is equally likely in each place, neighbours too") {
  for (const int64_t size : {3, 5, 10, 29}) {
    const auto n = static_cast<size_t>(size);
    constexpr int kEpochs = 20000;
    std::vector<double> place(n * n, 0.0), follows(n * n, 0.0);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Permutation permutation(size, 11, static_cast<uint64_t>(epoch), 0);
      auto before = static_cast<size_t>(permutation(0));
      ++place[before];
      for (size_t i = 1; i < n; ++i) {
        const auto here = static_cast<size_t>(permutation(static_cast<int64_t>(i)));
        ++place[i * n + here];
        ++follows[before * n + here];
        before = here;
      }
    }
    double square = 0, pairs = 0;
    const double expected = kEpochs / static_cast<double>(size);
    for (const double count : place) square += (count - expected) * (count - expected) / expected;
    for (size_t i = 0; i < n * n; ++i) {
      if (i % (n + 1) == 0) continue;
      pairs += (follows[i] - expected) * (follows[i] - expected) / expected;
    }
    // Chi-squared, with five standard deviations of room.
    const double freedom = static_cast<double>((size - 1) * (size - 1));
    CHECK(square < freedom + 5 * std::sqrt(2 * freedom) + 5);
    const double pair_freedom = static_cast<double>(size * (size - 2));
    CHECK(pairs < pair_freedom + 5 * std::sqrt(2 * pair_freedom) + 5);
  }
}

TEST_CASE("whatever the rescales, a pass is read exactly once, in one order") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto samples = static_cast<int64_t>(random() % 400) + 1;
    SamplerOptions options;
    options.seed = random();
    options.shuffle = random() % 4 != 0;
    options.after = static_cast<AfterPass>(random() % 3);
    const Sampler sampler(samples, options);
    const Position start{random() % 100, random() % 3, 0};
    const Pass pass = run_pass(sampler, start, random);
    CHECK(static_cast<int64_t>(pass.read.size()) == samples);
    for (const auto& [sample, times] : pass.read) {
      CHECK(times == 1);
      CHECK(sample >= 0);
      CHECK(sample < samples);
    }
    CHECK(run_pass(sampler, start, random).order == pass.order);
    if (!options.shuffle) CHECK(std::is_sorted(pass.order.begin(), pass.order.end()));
  }
}

TEST_CASE("the shares at the end of a pass differ by one, down to none") {
  SamplerOptions options;
  options.seed = 5;
  const Sampler sampler(10, options);
  const Position at{0, 0, 8};  // two are left for three replicas
  const auto all = sampler.indices(sampler.step({0, 0, 0}, 1, 0, 10));
  const Step step = sampler.step(at, 3, 2, 1);
  CHECK(step.samples == 0);
  CHECK(step.consumed == 2);
  CHECK(step.ends_pass);
  CHECK(sampler.indices(step).empty());
  CHECK(sampler.indices(sampler.step(at, 3, 1, 1)) == std::vector<int64_t>{all[9]});
  // More replicas than samples.
  const Sampler tiny(2, options);
  for (int rank = 0; rank < 5; ++rank) CHECK(tiny.step({}, 5, rank, 1).samples == (rank < 2));
}

TEST_CASE("no replica has a single sample of several, if its batch has more") {
  const auto shares = [](int64_t left, int replicas, int64_t batch) {
    std::vector<int64_t> result;
    for (int rank = 0; rank < replicas; ++rank) {
      result.push_back(Sampler(100, {}).step({0, 0, 100 - left}, replicas, rank, batch).samples);
    }
    return result;
  };
  using Shares = std::vector<int64_t>;
  CHECK(shares(6, 3, 4) == Shares{2, 2, 2});
  CHECK(shares(5, 3, 4) == Shares{3, 2, 0});
  CHECK(shares(4, 3, 4) == Shares{2, 2, 0});
  CHECK(shares(3, 3, 4) == Shares{3, 0, 0});
  CHECK(shares(2, 3, 4) == Shares{2, 0, 0});
  CHECK(shares(1, 3, 4) == Shares{1, 0, 0});
  CHECK(shares(4, 3, 1) == Shares{1, 1, 1});
  CHECK(shares(2, 3, 1) == Shares{1, 1, 0});
  // All that there is.
  CHECK(Sampler(2, {}).step({}, 5, 0, 8).samples == 2);
  CHECK(Sampler(3, {}).step({}, 3, 1, 8).samples == 0);
}

TEST_CASE("the last micro-batch of a step has more than one sample, if the step has") {
  // The sizes of the micro-batches of the steps of a pass.
  const auto sizes = [](int64_t samples, int replicas, int64_t batch, int micro_batches,
                        bool drop_last = false) {
    SamplerOptions options;
    options.drop_last = drop_last;
    const Sampler sampler(samples, options);
    std::vector<int64_t> result;
    Step step;
    for (int micro = 0; !step.ends_pass; ++micro) {
      step = sampler.step(step.next, replicas, 0, batch, (micro + 1) % micro_batches != 0);
      result.push_back(step.consumed);
    }
    return result;
  };
  using Sizes = std::vector<int64_t>;
  CHECK(sizes(25, 1, 8, 4) == Sizes{8, 8, 7, 2});
  CHECK(sizes(25, 1, 8, 3) == Sizes{8, 8, 8, 1});  // it is a step of its own
  CHECK(sizes(9, 1, 2, 5) == Sizes{2, 2, 2, 3});
  CHECK(sizes(3, 1, 2, 2) == Sizes{3});
  CHECK(sizes(13, 3, 2, 3) == Sizes{6, 7});
  CHECK(sizes(13, 3, 4, 3) == Sizes{11, 2});
  CHECK(sizes(3, 1, 1, 3) == Sizes{1, 1, 1});
  CHECK(sizes(25, 1, 8, 4, /*drop_last=*/true) == Sizes{8, 8, 8});
}

TEST_CASE("continuous: each place goes on, and a pass reads every sample but a rest") {
  for (const int64_t samples : {1, 5, 64, 1000}) {
    for (const int replicas : {1, 3}) {
      const Sampler sampler(samples, {.continuous = true});
      std::vector<std::vector<int64_t>> before(static_cast<size_t>(replicas));
      std::set<int64_t> read;
      Position position;
      for (bool over = false; !over;) {
        Step step;
        for (int rank = 0; rank < replicas; ++rank) {
          step = sampler.step(position, replicas, rank, 4);
          const std::vector<int64_t> here = sampler.indices(step);
          REQUIRE(static_cast<int64_t>(here.size()) == step.samples);
          auto& last = before[static_cast<size_t>(rank)];
          for (size_t i = 0; i < last.size(); ++i) CHECK(here[i] == last[i] + 1);
          for (const int64_t sample : here) CHECK(read.insert(sample).second);
          last = here;
        }
        position = step.next;
        over = step.ends_pass;
      }
      CHECK(static_cast<int64_t>(read.size()) > samples - int64_t{4} * replicas);
      CHECK(*read.rbegin() < samples);
      CHECK(position == Position{0, 0, samples});
    }
  }
}

TEST_CASE("continuous: with another batch the columns go on at the same share of their length") {
  const Sampler sampler(1000, {.continuous = true});
  const Step before = sampler.step({0, 0, 480}, 2, 1, 10);  // row 24 of 50, columns 10 to 19
  CHECK(sampler.indices(before).front() == 10 * 50 + 24);
  const Step after = sampler.step(before.next, 1, 0, 10);  // row 50 of 100
  CHECK(after.from.index == 500);
  CHECK(sampler.indices(after).at(1) == 100 + 50);
}

TEST_CASE("drop_last leaves the rest of a pass out, but never all of it") {
  SamplerOptions options;
  options.drop_last = true;
  const Sampler sampler(10, options);
  Step step = sampler.step({0, 0, 0}, 2, 1, 4);
  CHECK(step.samples == 4);
  CHECK(step.ends_pass);
  CHECK(sampler.step(step.next, 2, 1, 4).consumed == 0);
  CHECK(sampler.step({0, 0, 8}, 1, 0, 2).consumed == 2);  // it fills the batch after all
  CHECK(sampler.step({0, 0, 0}, 2, 0, 64).samples == 5);
}

TEST_CASE("shards cover a pass once, in steps of as many samples as asked for") {
  for (const int64_t samples : {1, 5, 23, 100}) {
    for (const int shards : {1, 3, 8}) {
      for (const int64_t batch : {1, 7, 16, 22, 1000}) {
        const Sampler sampler(samples, {.seed = 3});
        std::map<int64_t, int> read;
        for (Position position; position.index < samples;) {
          const Step first = sampler.shard(position, shards, 0, batch);
          CHECK(first.consumed == std::min(batch, samples - position.index));
          int64_t all = 0;
          for (int shard = 0; shard < shards; ++shard) {
            const Step step = sampler.shard(position, shards, shard, batch);
            CHECK(step.next == first.next);
            CHECK(step.ends_pass == first.ends_pass);
            CHECK(step.samples <= first.samples);
            CHECK(step.samples >= (shard < first.sharers ? first.samples - 1 : 0));
            CHECK((step.samples != 1 || batch <= shards || step.consumed == 1));
            for (const int64_t sample : sampler.indices(step)) ++read[sample];
            all += step.samples;
          }
          CHECK(all == first.consumed);
          CHECK(sampler.shard(position, shards, shards, batch).samples == 0);
          position = first.next;
        }
        CHECK(static_cast<int64_t>(read.size()) == samples);
        for (const auto& [sample, times] : read) CHECK(times == 1);
      }
    }
  }
}

TEST_CASE("behind a pass comes what was asked for") {
  SamplerOptions options;
  options.after = AfterPass::next_pass;
  Step step = Sampler(4, options).step({1, 2, 0}, 1, 0, 4);
  CHECK(step.next == Position{1, 3, 0, 1});
  step = Sampler(4, options).step({1, 2, 4}, 1, 0, 3);
  CHECK(step.from == Position{1, 3, 0, 1});
  CHECK(step.samples == 3);
  options.after = AfterPass::next_epoch;
  CHECK(Sampler(4, options).step({1, 2, 3}, 1, 0, 4).next == Position{2, 0, 0, 1});
  options.after = AfterPass::stop;
  step = Sampler(4, options).step({1, 2, 4}, 1, 0, 4);
  CHECK(step.consumed == 0);
  CHECK(step.samples == 0);
  CHECK(step.ends_pass);
}

TEST_CASE("passes and epochs have orders of their own") {
  const Sampler sampler(100, {});
  std::set<std::vector<int64_t>> orders;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    for (uint64_t pass = 0; pass < 3; ++pass) {
      orders.insert(sampler.indices(sampler.step({epoch, pass, 0}, 1, 0, 100)));
    }
  }
  CHECK(orders.size() == 15);
}
