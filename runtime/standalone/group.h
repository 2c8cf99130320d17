#pragma once

// Replicas that only exchange values: one generation, and a thread that makes the collectives.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/comm/connect.h"
#include "runtime/standalone/fold.h"
#include "runtime/standalone/place.h"

namespace adaptdl::standalone {

// Thread-safe; the order of calls must be the same on all replicas.
class Group {
 public:
  // Blocks until all replicas are there. Throws Error as meet() does.
  explicit Group(const Place& place);
  ~Group();  // after what has been posted
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return communicator_->rank(); }
  int replicas() const { return communicator_->size(); }

  // As fold_bytes(), after the calls before. Throws comm::Aborted once a replica is gone.
  std::string fold(const std::string& mine, const Fold& fold);

  // Calls it on the group's thread, after the calls before; fold() in it is part of it.
  void post(std::function<void()> task);

 private:
  void run();

  std::unique_ptr<comm::Listener> listener_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace adaptdl::standalone
