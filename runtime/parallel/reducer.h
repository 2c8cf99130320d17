#pragma once

// A thread that runs the all-reduces of gradient buckets, in order, while backward goes on.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace adaptdl {

// submit() and wait() from one thread. After an exception the rest of the queue is dropped until
// wait() has handed it on.
class Reducer {
 public:
  Reducer();
  ~Reducer();  // waits for the job under way; abort the communicator first

  void submit(std::function<void()> job);

  // Returns when every job has ended; rethrows the first exception of any.
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
