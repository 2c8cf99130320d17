#pragma once

// A thread that runs the all-reduces of gradient buckets, in order, during backward; on a GPU, on a
// stream of its own.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/parallel/side_stream.h"

namespace adaptdl {

// One thread calls submit() and wait(). After an exception the queue is dropped until wait() has
// rethrown it.
class Reducer {
 public:
  explicit Reducer(at::Device device);
  ~Reducer();  // waits for the running job; abort the communicator first

  // What the calling thread has queued on the device comes before what the job queues there.
  void submit(std::function<void()> job);

  // Waits for all jobs; rethrows the first exception.
  void wait();

 private:
  struct Job {
    std::function<void()> run;
    std::shared_ptr<const c10::Event> after;
  };
  void loop();

  const SideStream side_;
  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<Job> jobs_;
  bool busy_ = false, quit_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace adaptdl
