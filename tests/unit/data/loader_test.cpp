#include "runtime/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "tests/unit/data/fixtures.h"

using namespace adaptdl::data;
using fixtures::contains;
using fixtures::error_of;

namespace {

// Sample i is the number i, `width` times.
class Counting : public Column {
 public:
  explicit Counting(int64_t rows, int64_t width = 1)
      : Column("counting", rows, DType::int64, {width}), width_(width) {}

  void copy_rows(std::span<const int64_t> rows, std::byte* out) const override {
    for (const int64_t row : rows) {
      if (row == bad_row) adaptdl::fail("row {} cannot be read", row);
      if (closed) {
        std::unique_lock lock(mutex);
        ++waiting;
        changed.notify_all();
        changed.wait(lock, [this] { return !closed; });
        --waiting;
      }
      for (int64_t i = 0; i < width_; ++i) {
        std::memcpy(out, &row, sizeof row);
        out += sizeof row;
      }
      ++copied;
    }
  }

  void open() {
    {
      std::lock_guard lock(mutex);
      closed = false;
    }
    changed.notify_all();
  }

  mutable std::atomic<int64_t> copied{0};
  std::atomic<int64_t> bad_row{-1};
  // A reader that meets a closed gate waits until open().
  std::atomic<bool> closed{false};
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable int waiting = 0;

 private:
  int64_t width_;
};

std::vector<int64_t> values(const Batch& batch) {
  const Buffer& buffer = batch.columns.at(0);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < batch.step.samples; ++i) {
    int64_t value;
    std::memcpy(&value,
                buffer.memory.get() + static_cast<size_t>(i) *
                                          (buffer.bytes / static_cast<size_t>(batch.step.samples)),
                sizeof value);
    result.push_back(value);
  }
  return result;
}

LoaderOptions options(int threads, int ready) {
  LoaderOptions result;
  result.threads = threads;
  result.ready_batches = ready;
  return result;
}

}  // namespace

TEST_CASE("batches come in the sampler's order with any number of threads") {
  for (const int threads : {0, 1, 2, 5}) {
    for (const int ready : {1, 2, 7}) {
      const auto column = std::make_shared<Counting>(103, 3);
      SamplerOptions how;
      how.seed = 9;
      const Sampler sampler(103, how);
      Loader loader(Dataset({column}), sampler, options(threads, ready));
      loader.configure({2, 0, 0}, 3, 1, 4);
      Position position{2, 0, 0};
      int count = 0;
      while (auto batch = loader.next()) {
        const Step step = sampler.step(position, 3, 1, 4);
        CHECK(batch->step.from == position);
        CHECK(values(*batch) == sampler.indices(step));
        CHECK(batch->columns[0].shape == std::vector<int64_t>{step.samples, 3});
        CHECK(batch->columns[0].dtype == DType::int64);
        CHECK(reinterpret_cast<uintptr_t>(batch->columns[0].memory.get()) % 64 == 0);
        position = step.next;
        CHECK(loader.position() == position);
        ++count;
      }
      CHECK(count == 9);
      CHECK_FALSE(loader.next().has_value());
      CHECK(position.index == 103);
    }
  }
}

TEST_CASE("a loader reads on over passes when the sampler does") {
  SamplerOptions how;
  how.after = AfterPass::next_epoch;
  Loader loader(Dataset({std::make_shared<Counting>(10)}), Sampler(10, how), options(2, 3));
  loader.configure({}, 1, 0, 4);
  std::vector<int64_t> sizes;
  for (int i = 0; i < 6; ++i) {
    const auto batch = loader.next();
    sizes.push_back(batch->step.samples);
    CHECK(batch->step.ends_pass == (i % 3 == 2));
  }
  CHECK(sizes == std::vector<int64_t>{4, 4, 2, 4, 4, 2});
  CHECK(loader.position() == Position{2, 0, 0, 2});
}

TEST_CASE("a loader knows which micro-batches are of one optimizer step") {
  SamplerOptions how;
  how.after = AfterPass::next_epoch;
  for (const int threads : {0, 2}) {
    Loader loader(Dataset({std::make_shared<Counting>(13)}), Sampler(13, how), options(threads, 3));
    loader.configure({}, 1, 0, 4, 4);
    std::vector<int64_t> sizes;
    for (int i = 0; i < 8; ++i) sizes.push_back(loader.next()->step.samples);
    CHECK(sizes == std::vector<int64_t>{4, 4, 3, 2, 4, 4, 3, 2});
    // A step begins behind the first two.
    loader.next();
    loader.next();
    loader.configure({2, 0, 8}, 1, 0, 4, 1);
    CHECK(loader.next()->step.samples == 4);
    CHECK(loader.next()->step.samples == 1);
  }
}

TEST_CASE("a loader reads the shards of each step, all before those of the next") {
  for (const int threads : {0, 1, 3}) {
    const Sampler sampler(50, {.seed = 2, .after = AfterPass::next_epoch});
    Loader loader(Dataset({std::make_shared<Counting>(50)}), sampler, options(threads, 2));
    Position position;
    loader.configure_shards(position, 8, {3, 3}, 20);
    for (int step = 0; step < 7; ++step) {
      Position next;
      for (int shard = 3; shard < 6; ++shard) {
        const auto batch = loader.next();
        REQUIRE(batch);
        const Step expected = sampler.shard(position, 8, shard, 20);
        CHECK(batch->step.from == expected.from);
        CHECK(batch->step.rank == shard);
        CHECK(values(*batch) == sampler.indices(expected));
        next = expected.next;
      }
      position = next;
      if (step == 3) loader.configure_shards(position, 8, {3, 3}, 20);  // keeps what is ready
    }
  }
}

TEST_CASE("rescales at random places lose and repeat nothing") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 30; ++round) {
    const auto samples = static_cast<int64_t>(random() % 300) + 1;
    SamplerOptions how;
    how.seed = random();
    const Sampler sampler(samples, how);
    const Dataset dataset({std::make_shared<Counting>(samples)});
    std::vector<std::unique_ptr<Loader>> loaders;
    std::vector<int> seen(static_cast<size_t>(samples), 0);
    Position position;
    bool done = false;
    while (!done) {
      const size_t replicas = random() % 4 + 1;
      const auto batch = static_cast<int64_t>(random() % 9) + 1;
      while (loaders.size() < replicas) {
        loaders.push_back(std::make_unique<Loader>(
            dataset, sampler,
            options(static_cast<int>(random() % 3), 1 + static_cast<int>(random() % 3))));
      }
      for (size_t r = 0; r < replicas; ++r) {
        loaders[r]->configure(position, static_cast<int>(replicas), static_cast<int>(r), batch);
      }
      for (int steps = static_cast<int>(random() % 5); steps > 0 && !done; --steps) {
        for (size_t r = 0; r < replicas; ++r) {
          const auto got = loaders[r]->next();
          if (!got) {
            done = true;
            continue;
          }
          const auto indices = values(*got);
          for (const int64_t index : indices) ++seen[static_cast<size_t>(index)];
          position = got->step.next;
        }
      }
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

TEST_CASE("configure neither waits for a read under way nor lets it through") {
  const auto column = std::make_shared<Counting>(1000);
  Loader loader(Dataset({column}), Sampler(1000, {}), options(1, 2));
  column->closed = true;
  loader.configure({}, 1, 0, 10);
  {
    std::unique_lock lock(column->mutex);
    column->changed.wait(lock, [&] { return column->waiting == 1; });
  }
  const auto start = adaptdl::Monotonic::now();
  loader.configure({0, 0, 500}, 2, 1, 5);
  // It takes microseconds; the rest is scheduling. If it waited for the read, it would for ever.
  CHECK(adaptdl::seconds_since(start) < 5);
  column->open();
  const auto batch = loader.next();
  CHECK(batch->step.from.index == 500);
  CHECK(batch->step.samples == 5);
  CHECK(values(*batch) == loader.sampler().indices(batch->step));
}

TEST_CASE("the same settings keep what is ready") {
  const auto column = std::make_shared<Counting>(100);
  SamplerOptions how;
  how.shuffle = false;
  Loader loader(Dataset({column}), Sampler(100, how), options(1, 2));
  loader.configure({}, 1, 0, 10);
  loader.next();
  while (column->copied < 30) std::this_thread::yield();
  loader.configure({0, 0, 10}, 1, 0, 10);
  CHECK(values(*loader.next()).front() == 10);
  while (column->copied < 40) std::this_thread::yield();
  CHECK(column->copied == 40);
}

TEST_CASE("no more is read ahead than asked for") {
  const auto column = std::make_shared<Counting>(1000);
  Loader loader(Dataset({column}), Sampler(1000, {}), options(4, 3));
  loader.configure({}, 1, 0, 10);
  while (column->copied < 30) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(column->copied == 30);
}

TEST_CASE("an error while reading comes out of next(), until configured anew") {
  for (const int threads : {0, 1, 3}) {
    const auto column = std::make_shared<Counting>(100);
    SamplerOptions how;
    how.shuffle = false;
    Loader loader(Dataset({column}), Sampler(100, how), options(threads, 4));
    column->bad_row = 25;
    loader.configure({}, 1, 0, 10);
    CHECK(loader.next().has_value());
    CHECK(loader.next().has_value());
    for (int i = 0; i < 2; ++i) {
      CHECK(contains(error_of([&] { loader.next(); }), "row 25 cannot be read"));
    }
    column->bad_row = -1;
    loader.configure({0, 0, 20}, 1, 0, 10);
    CHECK(loader.next()->step.from.index == 20);
  }
}

TEST_CASE("memory is used again, and outlives the loader") {
  std::atomic<int> allocated{0}, released{0};
  std::optional<Batch> kept;
  {
    LoaderOptions how = options(1, 2);
    how.allocate = [&](size_t bytes) {
      ++allocated;
      return std::aligned_alloc(64, bytes);
    };
    how.release = [&](void* data) {
      ++released;
      std::free(data);
    };
    SamplerOptions endless;
    endless.after = AfterPass::next_pass;
    Loader loader(Dataset({std::make_shared<Counting>(1000)}), Sampler(1000, endless), how);
    loader.configure({}, 1, 0, 10);
    for (int i = 0; i < 500; ++i) kept = loader.next();
    CHECK(allocated <= 5);
  }
  CHECK(values(*kept).size() == 10);
  CHECK(released < allocated);
  kept.reset();
  CHECK(released == allocated);
}

TEST_CASE("a replica may come away with nothing") {
  SamplerOptions how;
  how.shuffle = false;
  for (const int threads : {0, 1}) {
    Loader loader(Dataset({std::make_shared<Counting>(5)}), Sampler(5, how), options(threads, 2));
    loader.configure({}, 4, 3, 1);
    CHECK(values(*loader.next()) == std::vector<int64_t>{3});
    const auto last = loader.next();
    REQUIRE(last.has_value());
    CHECK(last->step.samples == 0);
    CHECK(last->columns[0].shape == std::vector<int64_t>{0, 1});
    CHECK_FALSE(loader.next().has_value());
  }
}

TEST_CASE("a loader may go at any time") {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    Loader loader(Dataset({std::make_shared<Counting>(10000, 64)}), Sampler(10000, {}),
                  options(static_cast<int>(random() % 4), 2));
    if (round % 5 == 0) continue;
    loader.configure({}, 1, 0, 1000);
    for (unsigned i = random() % 4; i > 0; --i) loader.next();
    if (round % 3 == 0) loader.configure({1, 0, 0}, 2, 1, 500);
  }
}
