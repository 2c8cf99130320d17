#include "runtime/data/loader.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "runtime/data/pool.h"

namespace adaptdl::data {
namespace {

// Bytes copied between two checks whether the batch is still needed.
constexpr size_t kCopyAtOnce = 1u << 20;

// The place of a micro-batch: in the data, and among those of its optimizer step.
struct Place {
  Position position;
  int micro = 0;

  bool operator==(const Place&) const = default;
};

// What to read. Of shards: `replicas` is their number, `rank` the first, `at_once` how many a step
// has of them, and `atomic_batch` the step's samples.
struct Settings {
  int replicas = 0, rank = 0;  // 0 replicas: not configured
  int64_t atomic_batch = 0;
  int at_once = 1;
  bool shards = false;

  bool operator==(const Settings&) const = default;
};

// One of the `ready_batches` places, used in turn.
struct Slot {
  bool done = false;
  Batch batch;
  std::exception_ptr error;
};

}  // namespace

struct Loader::Impl {
  Dataset dataset;
  Sampler sampler;
  std::shared_ptr<Pool> pool;

  mutable std::mutex mutex;
  std::condition_variable work;   // something to read, or the end
  std::condition_variable ready;  // a slot is done
  std::condition_variable turn;   // `fetched` has grown, or the version
  // The owner's thread writes these under the mutex.
  Settings settings;
  Place place;  // after the last batch delivered
  // Reading ahead. Sequence numbers count the batches since configure(); batch n is in
  // slots[n % size].
  Place ahead;  // where the next batch to be read starts
  uint64_t issued = 0, delivered = 0;
  uint64_t fetched = 0;    // batches whose turn to call Dataset::fetch() is over
  bool exhausted = false;  // the pass is over and the sampler stops, or a batch failed
  bool quit = false;
  std::vector<Slot> slots;
  // Incremented by every configure() and at the end; readers abandon a batch of an older version.
  std::atomic<uint64_t> version{0};
  double waited = 0.0;  // owner's thread only
  std::vector<std::thread> threads;

  Impl(Dataset d, const Sampler& s, const LoaderOptions& options)
      : dataset(std::move(d)), sampler(s) {
    ADAPTDL_CHECK(dataset.size() == sampler.samples());
    ADAPTDL_CHECK(options.threads >= 0 && options.ready_batches >= 1);
    slots.resize(static_cast<size_t>(options.ready_batches));
    // Those being read or ready, and two that training holds while it asks for the next.
    const size_t blocks = (slots.size() + 2) * dataset.columns().size();
    pool = Pool::create(blocks, options.allocate, options.release);
    for (int i = 0; i < options.threads; ++i) threads.emplace_back([this] { read_loop(); });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      quit = true;
      version.fetch_add(1, std::memory_order_relaxed);
    }
    work.notify_all();
    turn.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void configure(const Position& position, const Settings& wanted);

  Step step_at(const Place& at) const {
    const Settings& s = settings;
    return s.shards ? sampler.shard(at.position, s.replicas, s.rank + at.micro, s.atomic_batch)
                    : sampler.step(at.position, s.replicas, s.rank, s.atomic_batch,
                                   at.micro + 1 < s.at_once);
  }
  Place after(const Step& step, const Place& at) const {
    const int next = (at.micro + 1) % settings.at_once;
    if (settings.shards) return {next > 0 ? at.position : step.next, next};
    return {step.next, step.ends_pass ? 0 : next};
  }

  Dataset::Make fetch(const Step& step, std::span<const int64_t> rows) const {
    if (rows.empty()) return [] { return std::shared_ptr<void>(); };
    return dataset.fetch()({rows, sampler.options().seed, step.from, step.sharers});
  }

  // As fetch(), when it is the turn of this batch; nothing if the version has changed meanwhile.
  // After an error the turn of the batches behind does not come.
  Dataset::Make fetch_in_turn(const Step& step, std::span<const int64_t> rows, uint64_t sequence,
                              uint64_t mine) {
    const auto outdated = [&] { return version.load(std::memory_order_relaxed) != mine; };
    std::unique_lock lock(mutex);
    turn.wait(lock, [&] { return outdated() || fetched == sequence; });
    if (outdated()) return {};
    lock.unlock();
    Dataset::Make make = fetch(step, rows);
    lock.lock();
    if (outdated()) return {};
    ++fetched;
    turn.notify_all();
    return make;
  }

  // Reads the batch of `step`; nothing if the version has changed meanwhile. `sequence`: its number
  // since configure(); none on the caller's thread.
  std::optional<Batch> read(const Step& step, std::optional<uint64_t> sequence, uint64_t mine) {
    std::vector<int64_t> rows = sampler.indices(step);
    for (int64_t& row : rows) row = dataset.row(row);
    Batch batch;
    batch.step = step;
    if (dataset.fetch()) {
      const auto make = sequence ? fetch_in_turn(step, rows, *sequence, mine) : fetch(step, rows);
      if (!make) return {};
      batch.fetched = make();
      return batch;
    }
    batch.columns.reserve(dataset.columns().size());
    for (const auto& column : dataset.columns()) {
      Buffer buffer;
      if (__builtin_mul_overflow(rows.size(), column->row_bytes(), &buffer.bytes)) {
        throw std::bad_alloc();
      }
      buffer.memory = pool->take(buffer.bytes);
      buffer.dtype = column->dtype();
      buffer.shape.push_back(step.samples);
      buffer.shape.insert(buffer.shape.end(), column->shape().begin(), column->shape().end());
      const size_t at_once = std::max<size_t>(1, kCopyAtOnce / column->row_bytes());
      for (size_t done = 0; done < rows.size(); done += at_once) {
        if (version.load(std::memory_order_relaxed) != mine) return {};
        const size_t count = std::min(at_once, rows.size() - done);
        column->copy_rows(std::span(rows).subspan(done, count),
                          buffer.memory.get() + done * column->row_bytes());
      }
      batch.columns.push_back(std::move(buffer));
    }
    return batch;
  }

  void read_loop() {
    pthread_setname_np(pthread_self(), "loader");
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);  // raised by a failed read of a mapped file
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [this] {
        return quit || (settings.replicas > 0 && !exhausted && issued - delivered < slots.size());
      });
      if (quit) return;
      const Step step = step_at(ahead);
      if (step.consumed == 0) {
        exhausted = true;
        ready.notify_all();
        continue;
      }
      ahead = after(step, ahead);
      const uint64_t sequence = issued++, mine = version.load(std::memory_order_relaxed);
      lock.unlock();
      std::optional<Batch> batch;
      std::exception_ptr error;
      try {
        batch = read(step, sequence, mine);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (version.load(std::memory_order_relaxed) != mine) {
        lock.unlock();
        batch.reset();  // frees its memory without the lock
        lock.lock();
        continue;
      }
      Slot& slot = slots[sequence % slots.size()];
      slot.done = true;
      slot.error = error;
      if (batch) slot.batch = std::move(*batch);
      if (error) exhausted = true;
      ready.notify_all();
    }
  }
};

Loader::Loader(Dataset dataset, const Sampler& sampler, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), sampler, options)) {}
Loader::~Loader() = default;

const Dataset& Loader::dataset() const {
  return impl_->dataset;
}
const Sampler& Loader::sampler() const {
  return impl_->sampler;
}
double Loader::waited_s() const {
  return impl_->waited;
}

void Loader::configure(const Position& position, int replicas, int rank, int64_t atomic_batch,
                       int at_once) {
  ADAPTDL_CHECK(replicas >= 1 && rank >= 0 && rank < replicas && atomic_batch >= 1 && at_once >= 1);
  impl_->configure(position, {replicas, rank, atomic_batch, at_once});
}

void Loader::configure_shards(const Position& position, int shards, ShardRange range,
                              int64_t batch) {
  ADAPTDL_CHECK(range.first >= 0 && range.count >= 1 && range.first + range.count <= shards);
  impl_->configure(position, {shards, range.first, batch, range.count, /*shards=*/true});
}

void Loader::Impl::configure(const Position& position, const Settings& wanted) {
  std::vector<Slot> dropped(slots.size());
  {
    std::lock_guard lock(mutex);
    const bool failed = std::any_of(slots.begin(), slots.end(),
                                    [](const Slot& slot) { return slot.error != nullptr; });
    if (!failed && settings == wanted && place == Place{position}) return;
    version.fetch_add(1, std::memory_order_relaxed);
    settings = wanted;
    place = ahead = {position};
    issued = delivered = fetched = 0;
    exhausted = false;
    slots.swap(dropped);
  }
  work.notify_all();
  turn.notify_all();
}

std::optional<Batch> Loader::next() {
  Impl& self = *impl_;
  ADAPTDL_CHECK(self.settings.replicas > 0);
  const TimePoint start = Monotonic::now();
  std::exception_ptr error;
  std::optional<Batch> batch;
  if (self.threads.empty()) {
    const Step step = self.step_at(self.place);
    if (step.consumed == 0) return {};
    try {
      batch = self.read(step, {}, self.version.load(std::memory_order_relaxed));
    } catch (...) {
      error = std::current_exception();
    }
  } else {
    std::unique_lock lock(self.mutex);
    Slot& slot = self.slots[self.delivered % self.slots.size()];
    self.ready.wait(lock,
                    [&] { return slot.done || (self.exhausted && self.issued == self.delivered); });
    if (!slot.done) return {};
    error = slot.error;
    if (!error) {
      batch = std::move(slot.batch);
      slot = Slot();
      ++self.delivered;
      self.place = self.after(batch->step, self.place);
      self.work.notify_one();
    }
  }
  self.waited += seconds_since(start);
  if (!error) {
    if (self.threads.empty()) self.place = self.after(batch->step, self.place);
    return batch;
  }
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail("not enough memory for a batch of {} samples; lower the atomic batch or prefetch_batches",
         self.settings.atomic_batch);
  } catch (const std::exception& other) {
    fail("cannot read a batch: {}", other.what());
  }
}

Position Loader::position() const {
  const Impl& self = *impl_;
  ADAPTDL_CHECK(self.settings.replicas > 0);
  return self.step_at(self.place).from;
}

}  // namespace adaptdl::data
