#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <random>
#include <set>
#include <string>

#include "core/base/error.h"
#include "runtime/data/loader.h"
#include "runtime/data/stream_reader.h"
#include "tests/unit/data/fixtures.h"

using namespace adaptdl::data;
using fixtures::contains;
using fixtures::error_of;

namespace {

// What was read of shards whose samples are {shard, number}.
struct Counts {
  std::atomic<int64_t> opened{0}, read{0}, skipped{0}, open{0}, most_open{0};
};

using Content = std::pair<int64_t, int64_t>;

class Cursor : public ShardCursor {
 public:
  Cursor(int64_t shard, int64_t next, int64_t end, Counts& counts)
      : shard_(shard), next_(next), end_(end), counts_(counts) {
    ++counts_.opened;
    counts_.most_open = std::max<int64_t>(counts_.most_open, ++counts_.open);
  }
  ~Cursor() override { --counts_.open; }
  std::shared_ptr<void> next() override {
    if (next_ >= end_) return nullptr;
    ++counts_.read;
    return std::make_shared<Content>(shard_, next_++);
  }
  bool skip(int64_t count) override {
    next_ += count;
    counts_.skipped += count;
    return next_ <= end_;
  }

 private:
  int64_t shard_, next_, end_;
  Counts& counts_;
};

StreamSource source_of(const std::vector<int64_t>& sizes, Counts& counts, bool endless = false) {
  StreamSource source;
  source.sizes = sizes;
  source.endless = endless;
  source.name = [](int64_t shard) { return "part-" + std::to_string(shard); };
  source.open = [sizes, endless, &counts](int64_t shard, int64_t first) {
    const int64_t end = endless ? INT64_MAX : sizes[static_cast<size_t>(shard)];
    return std::make_unique<Cursor>(shard, first, end, counts);
  };
  return source;
}

Dataset dataset_of(const StreamSource& source, const StreamOptions& options) {
  auto reader = std::make_shared<StreamReader>(source, options);
  const int64_t samples = reader->samples();
  return {samples,
          [reader](const Dataset::Request& request) -> Dataset::Make {
            auto read = std::make_shared<std::vector<StreamSample>>(reader->read(request));
            return [read] { return std::shared_ptr<void>(read); };
          },
          /*in_order=*/true};
}

Sampler sampler_of(const Dataset& dataset, uint64_t seed, AfterPass after = AfterPass::stop) {
  SamplerOptions options;
  options.seed = seed;
  options.shuffle = false;
  options.after = after;
  return Sampler(dataset.size(), options);
}

LoaderOptions threads(int count) {
  LoaderOptions options;
  options.threads = count;
  options.ready_batches = 3;
  return options;
}

// The numbers of a batch's samples.
std::vector<int64_t> numbers(const Batch& batch) {
  std::vector<int64_t> result;
  if (!batch.fetched) return result;
  for (const auto& sample : *static_cast<std::vector<StreamSample>*>(batch.fetched.get())) {
    result.push_back(sample.number);
  }
  return result;
}

// A whole pass of one replica.
std::vector<int64_t> whole_pass(const Dataset& dataset, uint64_t seed, const Position& position,
                                int64_t batch = 5) {
  Loader loader(dataset, sampler_of(dataset, seed), threads(0));
  loader.configure(position, 1, 0, batch);
  std::vector<int64_t> all;
  while (const auto next = loader.next()) {
    for (const int64_t number : numbers(*next)) all.push_back(number);
  }
  return all;
}

StreamOptions shuffled(int64_t buffer, int at_once) {
  return {true, buffer, at_once};
}

}  // namespace

TEST_CASE("places of a pass and samples of a stream are one to one") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> sizes(random() % 12 + 1);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 40);
    sizes.front() = 7;
    const StreamOptions options{round % 5 != 0, static_cast<int64_t>(random() % 60),
                                static_cast<int>(random() % 6 + 1)};
    const StreamOrder order(sizes, options, random(), {2, round % 2 == 0 ? 0u : 1u, 0});
    std::set<std::pair<int64_t, int64_t>> seen;
    std::vector<int64_t> last(static_cast<size_t>(order.lanes()), -1);
    for (int64_t place = 0; place < order.samples(); ++place) {
      const auto at = order.lane_place(place);
      CHECK(order.place(at) == place);
      const auto [shard, sample] = order.shard_place(at);
      CHECK(sample < sizes[static_cast<size_t>(shard)]);
      seen.insert({shard, sample});
      // A lane is read block by block.
      auto& begin = last[static_cast<size_t>(at.lane)];
      CHECK(order.block_begin(at) >= begin);
      begin = order.block_begin(at);
      CHECK(at.at - begin <= options.shuffle_buffer);
      if (!options.shuffle) CHECK(at.at == place);
    }
    int64_t total = 0;
    for (const int64_t size : sizes) total += size;
    CHECK(order.samples() == total);
    CHECK(static_cast<int64_t>(seen.size()) == total);
  }
}

TEST_CASE("each pass of a stream has an order of its own, which never changes") {
  const std::vector<int64_t> sizes{4, 3, 5, 4};
  // Shard and sample of each place.
  const auto order = [&](uint64_t seed, const Position& pass) {
    const StreamOrder it(sizes, shuffled(4, 2), seed, pass);
    std::string all;
    for (int64_t place = 0; place < it.samples(); ++place) {
      const auto [shard, sample] = it.shard_place(it.lane_place(place));
      all += (place == 0 ? "" : " ") + std::to_string(shard) + std::to_string(sample);
    }
    return all;
  };
  const std::string known =
      "30 21 31 20 32 22 33 23 00 10 02 24 01 12 03 11";  // part of the format of checkpoints
  CHECK(order(1, {}) == known);
  CHECK(order(1, {0, 0, 9, 4}) == known);
  CHECK(order(2, {}) != known);
  CHECK(order(1, {1, 0, 0}) != known);
  CHECK(order(1, {0, 1, 0}) != known);
}

TEST_CASE("rescales at random places lose and repeat no sample of a stream") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 60; ++round) {
    Counts counts;
    std::vector<int64_t> sizes(random() % 9 + 1);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 60 + 1);
    const StreamSource source = source_of(sizes, counts);
    const StreamOptions options{round % 6 != 0, static_cast<int64_t>(random() % 50),
                                static_cast<int>(random() % 5 + 1)};
    const uint64_t seed = random();
    const Dataset alone = dataset_of(source, options);
    const Sampler sampler = sampler_of(alone, seed);
    const std::vector<int64_t> undisturbed = whole_pass(alone, seed, {});
    std::vector<std::unique_ptr<Loader>> loaders;
    std::vector<int64_t> read(static_cast<size_t>(alone.size()), -1);
    Position position;
    bool done = false;
    while (!done) {
      const size_t replicas = random() % 4 + 1;
      const auto batch = static_cast<int64_t>(random() % 9) + 1;
      if (random() % 8 == 0) loaders.clear();  // all die
      while (loaders.size() < replicas) {
        loaders.push_back(std::make_unique<Loader>(dataset_of(source, options), sampler,
                                                   threads(static_cast<int>(random() % 4))));
      }
      for (size_t r = 0; r < replicas; ++r) {
        loaders[r]->configure(position, static_cast<int>(replicas), static_cast<int>(r), batch);
      }
      for (int steps = static_cast<int>(random() % 5); steps > 0 && !done; --steps) {
        Position next = position;
        for (size_t r = 0; r < replicas; ++r) {
          const auto got = loaders[r]->next();
          if (!got) {
            done = true;
            continue;
          }
          size_t place = static_cast<size_t>(position.index) + r;
          for (const int64_t number : numbers(*got)) {
            CHECK(read.at(place) == -1);
            read[place] = number;
            place += static_cast<size_t>(got->step.sharers);
          }
          next = got->step.next;
        }
        position = next;
      }
    }
    CHECK(read == undisturbed);
    std::sort(read.begin(), read.end());
    for (size_t i = 0; i < read.size(); ++i) CHECK(read[i] == static_cast<int64_t>(i));
  }
}

TEST_CASE("a stream is read once from its beginning, with few open shards") {
  Counts counts;
  const StreamSource source = source_of(std::vector<int64_t>(20, 50), counts);
  const Dataset dataset = dataset_of(source, shuffled(40, 4));
  for (const int reading : {1, 3}) {
    Loader loader(dataset, sampler_of(dataset, 5), threads(reading));
    loader.configure({}, 1, 0, 7);
    while (loader.next()) continue;
    CHECK(counts.opened.exchange(0) == 20);
    CHECK(counts.read.exchange(0) == 1000);
    CHECK(counts.skipped == 0);
    CHECK(counts.most_open == 4);
  }
}

TEST_CASE("a replica reads only the shards of its lanes, and only its own samples") {
  Counts counts;
  const StreamSource source = source_of(std::vector<int64_t>(20, 50), counts);
  const Dataset dataset = dataset_of(source, shuffled(40, 4));
  Loader loader(dataset, sampler_of(dataset, 5), threads(2));
  loader.configure({}, 2, 1, 10);
  while (loader.next()) continue;
  CHECK(counts.opened == 10);
  CHECK(counts.read == 500);
  CHECK(counts.skipped == 0);
  loader.configure({}, 8, 3, 5);
  while (loader.next()) continue;
  CHECK(counts.read == 500 + 125);
  CHECK(counts.skipped >= 100);
}

TEST_CASE("a stream goes on where a run has stopped, without the shards that are done") {
  Counts counts;
  const StreamSource source = source_of(std::vector<int64_t>(20, 50), counts);
  const Dataset dataset = dataset_of(source, shuffled(40, 4));
  const auto all = whole_pass(dataset, 5, {});
  counts.read = 0;
  const auto rest = whole_pass(dataset_of(source, shuffled(40, 4)), 5, {0, 0, 800});
  CHECK(rest == std::vector<int64_t>(all.begin() + 800, all.end()));
  CHECK(counts.read == 200);
}

TEST_CASE("an endless stream goes on from pass to pass") {
  Counts counts;
  const StreamSource source = source_of({5, 3, 4}, counts, /*endless=*/true);
  StreamReader reader(source, shuffled(4, 2));
  std::set<Content> seen;
  std::vector<int64_t> rows(12);
  for (int64_t i = 0; i < 12; ++i) rows[static_cast<size_t>(i)] = i;
  // An adaptive batch goes over the data twice in the first epoch.
  for (const Position pass : {Position{0, 0, 0, 0}, Position{0, 1, 0, 1}, Position{1, 0, 0, 2}}) {
    for (const auto& sample : reader.read({rows, 1, pass, 1})) {
      const auto content = *static_cast<Content*>(sample.content.get());
      CHECK(sample.number < 12);
      CHECK(seen.insert(content).second);
    }
  }
  CHECK(seen.size() == 36);
  CHECK(seen.contains({0, 14}));
  CHECK(seen.contains({1, 8}));
  CHECK(seen.contains({2, 11}));
}

TEST_CASE("a stream that is not as long as it says is an error that names the shard") {
  Counts counts;
  StreamSource source = source_of({5, 3}, counts);
  source.sizes = {5, 4};
  Dataset dataset = dataset_of(source, {});
  Loader loader(dataset, sampler_of(dataset, 0), threads(1));
  loader.configure({}, 1, 0, 4);
  CHECK(loader.next().has_value());
  CHECK(loader.next().has_value());
  const std::string error = error_of([&] { loader.next(); });
  CHECK(contains(error, "part-1"));
  CHECK(contains(error, "ended before sample 3"));
  // And again from there.
  loader.configure({0, 0, 4}, 1, 0, 4);
  CHECK(numbers(*loader.next()) == std::vector<int64_t>{4, 5, 6, 7});

  CHECK(contains(error_of([&] { dataset.split(0.1, 0); }), "cannot be divided"));
  source.sizes = {5, -1};
  CHECK(contains(error_of([&] { StreamReader(source, {}); }), "part-1"));
  source.sizes = {0, 0};
  CHECK(contains(error_of([&] { StreamReader(source, {}); }), "no samples"));
}

TEST_CASE("what is drawn for a sample depends on seed, pass and sample only") {
  const uint64_t seed = sample_seed(1, {2, 3, 0}, 4);
  CHECK(seed == sample_seed(1, {2, 3, 55, 9}, 4));
  for (const uint64_t other : {sample_seed(0, {2, 3, 0}, 4), sample_seed(1, {1, 3, 0}, 4),
                               sample_seed(1, {2, 0, 0}, 4), sample_seed(1, {2, 3, 0}, 5)}) {
    CHECK(other != seed);
  }
  CHECK(sample_seed(0, {}, 0) == 2391539541053276776);  // part of the format of checkpoints
}
