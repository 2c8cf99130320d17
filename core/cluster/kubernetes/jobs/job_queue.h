#pragma once

// The jobs that wait to be reconciled, for several threads that write. A job that is added while it
// waits is in the queue once; while a writer has it, no other writer gets it, and it waits again
// afterwards if it was added meanwhile.
//
// Namespaces take turns, and one gets another writer only while it has fewer than are free (the
// dynamic threshold of Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches", IEEE/ACM Transactions on Networking 6(2), 1998, with alpha = 1). So a namespace
// alone has half of the writers, and however many jobs it adds and however long they take, a job of
// another namespace finds a free one.
//
// Thread-safe. Its size is bounded by the number of jobs.

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace adaptdl::kubernetes {

class JobQueue {
 public:
  // `writers` >= 1. Closed at first.
  explicit JobQueue(int writers) : writers_(writers) {}

  // Empties it and lets jobs in. No writer has a job then.
  void open();
  // Lets no more jobs in and none out, and wakes the writers.
  void close();

  // `id`: "NAMESPACE/NAME".
  void add(const std::string& id);
  // Waits for a job that may be handed out; none: the queue is closed. The caller then calls
  // done().
  std::optional<std::string> take();
  void done(const std::string& id);

  // Whether a writer has the job.
  bool is_taken(const std::string& id) const;

 private:
  struct Namespace {
    std::deque<std::string> waiting;
    int taken = 0;  // writers that have its jobs
  };
  using Namespaces = std::map<std::string, Namespace, std::less<>>;

  void wait_again(const std::string& id);
  Namespaces::iterator next();

  const int writers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  Namespaces namespaces_;  // that have jobs here
  std::string last_;       // namespace whose turn it was last
  std::set<std::string> waiting_, with_writers_, added_meanwhile_;
};

}  // namespace adaptdl::kubernetes
