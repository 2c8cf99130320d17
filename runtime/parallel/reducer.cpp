#include "runtime/parallel/reducer.h"

#include <pthread.h>
#include <utility>

#include "runtime/torch_compat.h"

namespace adaptdl {

Reducer::Reducer(at::Device device) : side_(device), thread_([this] { loop(); }) {}

Reducer::~Reducer() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
    jobs_.clear();
  }
  work_.notify_one();
  thread_.join();
}

void Reducer::submit(std::function<void()> job) {
  auto here = side_.here();
  {
    std::lock_guard lock(mutex_);
    if (error_) return;
    jobs_.push_back({std::move(job), std::move(here)});
  }
  work_.notify_one();
}

void Reducer::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return jobs_.empty() && !busy_; });
  if (auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

void Reducer::loop() {
  pthread_setname_np(pthread_self(), "reducer");
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return quit_ || !jobs_.empty(); });
    if (quit_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    const auto attempt = [&error](const auto& what) {
      try {
        what();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    };
    attempt([&] {
      const SideStream::Scope scope(side_, job.after);
      job.run();
    });
    attempt([&] { side_.wait(); });  // its results are used, or overwritten, on another stream
    job = {};
    lock.lock();
    busy_ = false;
    if (error && !error_) {
      error_ = error;
      jobs_.clear();
    }
    if (jobs_.empty()) idle_.notify_all();
  }
}

}  // namespace adaptdl
