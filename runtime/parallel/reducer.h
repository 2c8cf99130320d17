#pragma once

// A thread that runs the all-reduces of gradient buckets, in order, during backward.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace adaptdl {

// One thread calls submit() and wait(). After an exception the queue is dropped until wait() has
// rethrown it.
class Reducer {
 public:
  Reducer();
  ~Reducer();  // waits for the running job; abort the communicator first

  void submit(std::function<void()> job);

  // Waits for all jobs; rethrows the first exception.
  void wait();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, quit_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace adaptdl
