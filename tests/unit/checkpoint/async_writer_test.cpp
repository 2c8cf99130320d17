#include "runtime/checkpoint/async_writer.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <future>
#include <limits>
#include <map>
#include <sys/resource.h>
#include <thread>

#include "runtime/checkpoint/snapshot_buffer.h"
#include "tests/unit/checkpoint/sample.h"

using namespace adaptdl;
using test::Sample;

namespace {

AsyncCheckpointWriter::Job job_of(int64_t step) {
  auto sample = std::make_shared<Sample>(step);
  return [sample] { return CheckpointContents{sample->header, sample->tensors(), sample}; };
}

}  // namespace

TEST_CASE("a checkpoint is written beside, and reported") {
  const TemporaryDirectory folder;
  std::vector<CheckpointResult> results;
  AsyncCheckpointWriter writer(CheckpointStore(folder.path(), 2),
                               [&](const CheckpointResult& result) { results.push_back(result); });
  CHECK_FALSE(writer.busy());
  CHECK(writer.wait().step == -1);
  CHECK(writer.submit(job_of(3)));
  const CheckpointResult result = writer.wait();
  CHECK_FALSE(writer.busy());
  CHECK(result.step == 3);
  CHECK(result.error.empty());
  CHECK(result.bytes == 3000 * 4 + 8);
  REQUIRE(results.size() == 1);
  CHECK(results[0].path == result.path);
  CHECK(Sample::matches(*CheckpointStore(folder.path(), 2).latest()));
}

TEST_CASE("a result names the tensor that is not finite, and the processor time") {
  const TemporaryDirectory folder;
  AsyncCheckpointWriter writer(CheckpointStore(folder.path(), 2), nullptr);
  const std::vector<double> values(1000, std::numeric_limits<double>::quiet_NaN());
  writer.submit([&] {
    return CheckpointContents{
        Sample(1).header, {{"w", "float64", {1000}, std::as_bytes(std::span(values)), true}}, {}};
  });
  const CheckpointResult refused = writer.wait();
  CHECK(refused.tensor == "w");
  CHECK(refused.error.find("\"w\"") != std::string::npos);
  CHECK(refused.path.empty());
  CHECK(CheckpointStore(folder.path(), 2).latest() == std::nullopt);
  writer.submit(job_of(2));
  const CheckpointResult written = writer.wait();
  CHECK(written.tensor.empty());
  CHECK(written.cpu_s > 0);
  CHECK(written.cpu_s <= written.seconds + 0.01);
}

TEST_CASE("while one is under way another is refused, and submit does not wait") {
  const TemporaryDirectory folder;
  AsyncCheckpointWriter writer(CheckpointStore(folder.path(), 2), nullptr);
  std::promise<void> go;
  auto gone = go.get_future().share();
  CHECK(writer.submit([&, gone] {
    gone.wait();
    return job_of(1)();
  }));
  CHECK(writer.busy());
  CHECK_FALSE(writer.submit(job_of(2)));
  go.set_value();
  CHECK(writer.wait().step == 1);
  CHECK(writer.submit(job_of(2)));
  CHECK(writer.wait().step == 2);
}

TEST_CASE("a failure is reported once until it works again") {
  const TemporaryDirectory folder;
  const std::string blocked = folder.file("checkpoints");
  write_file_atomic(blocked, "a file where the folder should be");
  std::vector<std::string> errors;
  AsyncCheckpointWriter writer(CheckpointStore(blocked, 2), [&](const CheckpointResult& result) {
    errors.push_back(result.error);
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(writer.submit(job_of(i)));
    CHECK_FALSE(writer.wait().error.empty());
  }
  CHECK(errors.size() == 1);
  remove_tree(blocked);
  CHECK(writer.submit(job_of(4)));
  CHECK(writer.wait().error.empty());
  CHECK(errors.size() == 2);
  CHECK(errors[1].empty());
  CHECK(writer.submit([]() -> CheckpointContents { fail("the device is gone"); }));
  CHECK(writer.wait().error == "the device is gone");
  CHECK(errors.size() == 3);
}

TEST_CASE("the destructor finishes what is under way") {
  const TemporaryDirectory folder;
  {
    AsyncCheckpointWriter writer(CheckpointStore(folder.path(), 2), nullptr);
    writer.submit(job_of(9));
  }
  CHECK(CheckpointStore(folder.path(), 2).latest()->header.step == 9);
}

TEST_CASE("what a job holds is free again when it is done") {
  const TemporaryDirectory folder;
  AsyncCheckpointWriter writer(CheckpointStore(folder.path(), 2), nullptr);
  auto sample = std::make_shared<Sample>(1);
  const std::weak_ptr<Sample> watch = sample;
  CHECK(writer.submit([held = std::move(sample)] {
    return CheckpointContents{held->header, held->tensors()};
  }));
  writer.wait();
  CHECK(watch.expired());
}

TEST_CASE("the writer's priority is below that of the thread that made it, however low") {
  const TemporaryDirectory folder;
  for (const int lower : {0, 3, 12}) {
    CAPTURE(lower);
    int maker = 0, writers = 0;
    // A thread of its own, for nobody may raise its priority again.
    std::thread([&] {
      setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + lower);
      maker = getpriority(PRIO_PROCESS, 0);
      AsyncCheckpointWriter writer(CheckpointStore(folder.path(), 2), nullptr);
      writer.submit([&writers] {
        writers = getpriority(PRIO_PROCESS, 0);
        return job_of(1)();
      });
      writer.wait();
    }).join();
    CHECK(writers == std::min(19, maker + 10));
  }
}

TEST_CASE("a snapshot keeps copies, aligned, in memory that is used again") {
  SnapshotBuffer buffer;
  const std::string a(1000, 'a'), b(3, 'b');
  const std::vector<size_t> sizes = {a.size(), 0, b.size()};
  buffer.layout(sizes);
  std::memcpy(buffer.part(0).data(), a.data(), a.size());
  std::memcpy(buffer.part(2).data(), b.data(), b.size());
  REQUIRE(buffer.parts() == 3);
  CHECK(std::memcmp(buffer.part(0).data(), a.data(), a.size()) == 0);
  CHECK(buffer.part(1).empty());
  CHECK(std::memcmp(buffer.part(2).data(), b.data(), b.size()) == 0);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(reinterpret_cast<uintptr_t>(buffer.part(i).data()) % 64 == 0);
  }
  const auto* memory = buffer.part(0).data();
  const size_t capacity = buffer.capacity();
  buffer.layout(sizes);
  CHECK(buffer.part(0).data() == memory);
  CHECK(buffer.capacity() == capacity);
  buffer.reserve(10u << 20);
  CHECK(buffer.capacity() >= 10u << 20);
  SnapshotBuffer moved = std::move(buffer);
  moved.layout(sizes);
  CHECK(moved.parts() == 3);
  moved.layout({});
  CHECK(moved.parts() == 0);
}

TEST_CASE("a snapshot's memory is pinned as long as it is there") {
  std::map<void*, size_t> pinned;
  bool works = true;
  const SnapshotBuffer::Pinning pinning{[&](void* memory, size_t bytes) {
                                          if (works) pinned[memory] = bytes;
                                          return works;
                                        },
                                        [&](void* memory) { CHECK(pinned.erase(memory) == 1); }};
  {
    SnapshotBuffer buffer(pinning);
    CHECK(pinned.empty());
    buffer.reserve(100);
    CHECK(pinned == std::map<void*, size_t>{{pinned.begin()->first, buffer.capacity()}});
    buffer.reserve(10u << 20);
    CHECK(pinned == std::map<void*, size_t>{{pinned.begin()->first, buffer.capacity()}});
    SnapshotBuffer moved(std::move(buffer));
    SnapshotBuffer other(pinning);
    other.reserve(1);
    CHECK(pinned.size() == 2);
    other = std::move(moved);
    CHECK(pinned.size() == 1);
  }
  CHECK(pinned.empty());
  works = false;
  SnapshotBuffer unpinned(pinning);
  unpinned.reserve(100);
}
