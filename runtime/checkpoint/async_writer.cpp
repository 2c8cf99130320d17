#include "runtime/checkpoint/async_writer.h"

#include <algorithm>
#include <exception>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include "core/base/clock.h"

namespace adaptdl {
namespace {

// Lowers the CPU and disk priority of the calling thread below the training threads. Does nothing
// without permission.
void lower_priority() {
  // ioprio_set(2) has no wrapper: IOPRIO_WHO_PROCESS, best effort (class 2) with the lowest level.
  constexpr int kWhoProcess = 1, kBestEffortLowest = (2 << 13) | 7;
  ::syscall(SYS_ioprio_set, kWhoProcess, 0, kBestEffortLowest);
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, thread, std::min(19, ::getpriority(PRIO_PROCESS, thread) + 10));
}

double thread_cpu_s() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

AsyncCheckpointWriter::AsyncCheckpointWriter(CheckpointStore store, OnResult on_result)
    : store_(std::move(store)), on_result_(std::move(on_result)), thread_([this] { loop(); }) {}

AsyncCheckpointWriter::~AsyncCheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool AsyncCheckpointWriter::submit(Job job) {
  ADAPTDL_CHECK(job != nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (busy_) return false;
    busy_ = true;
    job_ = std::move(job);
  }
  changed_.notify_all();
  return true;
}

bool AsyncCheckpointWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

CheckpointResult AsyncCheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  return last_;
}

CheckpointResult AsyncCheckpointWriter::write(const Job& job) {
  CheckpointResult result;
  const TimePoint start = Monotonic::now();
  const double cpu = thread_cpu_s();
  try {
    CheckpointContents contents = job();
    result.step = contents.header.step;
    WrittenCheckpoint written = store_.write(std::move(contents.header), contents.tensors);
    result.path = std::move(written.path);
    result.bytes = written.bytes;
  } catch (const NotFinite& error) {
    result.error = error.what();
    result.tensor = error.tensor;
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  result.seconds = seconds_since(start);
  result.cpu_s = thread_cpu_s() - cpu;
  return result;
}

void AsyncCheckpointWriter::loop() {
  pthread_setname_np(pthread_self(), "checkpoint");
  lower_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return job_ || quit_; });
    if (!job_) return;
    Job job = std::exchange(job_, nullptr);
    lock.unlock();
    const CheckpointResult result = write(job);
    const bool failed = !result.error.empty();
    if (on_result_ && !(failed && failing_)) on_result_(result);
    failing_ = failed;
    job = nullptr;  // frees what it held before the writer counts as idle
    lock.lock();
    last_ = result;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace adaptdl
