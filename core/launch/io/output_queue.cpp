#include "core/launch/io/output_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <thread>
#include <utility>

namespace adaptdl::launch {

namespace {

constexpr size_t kMostOthers = 16;  // times the capacity

struct Entry {
  nlohmann::json event;  // null: a sentence
  std::string line;
  bool measured = false;  // a `step` or a `gpu`: one of many
  uint64_t missing = 0;   // events dropped just before it
};

nlohmann::json dropped_event(uint64_t events, const nlohmann::json& next) {
  return {{"event", "dropped"}, {"events", events}, {"time_s", next.value("time_s", 0.0)}};
}

}  // namespace

// Outlives the OutputQueue when a sink never returns.
struct OutputQueue::Shared {
  std::vector<EventSink> sinks;
  Talk talk;
  size_t capacity;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> queue;
  size_t measured = 0;  // of entries in the queue
  uint64_t dropped = 0;
  uint64_t missing = 0;  // of these, those before the next entry
  bool busy = false, quit = false;
  std::thread thread;

  void put(Entry entry) {
    {
      std::lock_guard lock(mutex);
      measured += entry.measured;
      entry.missing = std::exchange(missing, 0);
      queue.push_back(std::move(entry));
      if (queue.size() > capacity && measured > 0) {
        // Most waiting entries are, so the search is short.
        drop(std::find_if(queue.begin(), queue.end(), [](auto& e) { return e.measured; }));
        --measured;
      } else if (queue.size() > kMostOthers * capacity) {
        drop(queue.begin());
      }
    }
    changed.notify_all();
  }

  void drop(std::deque<Entry>::iterator entry) {
    const uint64_t events = entry->event.is_null() ? 0 : 1;
    const uint64_t gap = entry->missing + events;
    dropped += events;
    const auto next = queue.erase(entry);
    (next == queue.end() ? missing : next->missing) += gap;
  }

  void pass_on(const nlohmann::json& event) {
    for (const EventSink& sink : sinks) sink(event);
  }

  void loop() {
    uint64_t gap = 0;  // events dropped since the last one
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return quit || !queue.empty(); });
      if (queue.empty()) return;
      const Entry entry = std::move(queue.front());
      queue.pop_front();
      measured -= entry.measured;
      gap += entry.missing;
      busy = true;
      lock.unlock();
      if (!entry.event.is_null()) {
        if (gap > 0) pass_on(dropped_event(std::exchange(gap, 0), entry.event));
        pass_on(entry.event);
      } else if (talk) {
        talk(entry.line);
      }
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

OutputQueue::OutputQueue(std::vector<EventSink> sinks, Talk talk, size_t capacity)
    : shared_(std::make_shared<Shared>()) {
  shared_->sinks = std::move(sinks);
  shared_->talk = std::move(talk);
  shared_->capacity = capacity;
  shared_->thread = std::thread([shared = shared_] {
    pthread_setname_np(pthread_self(), "output");
    shared->loop();
  });
}

OutputQueue::~OutputQueue() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->quit = true;
  }
  shared_->changed.notify_all();
  if (shared_->thread.joinable()) shared_->thread.join();
}

void OutputQueue::event(nlohmann::json event) {
  const std::string kind = event.value("event", "");
  shared_->put({std::move(event), "", kind == "step" || kind == "gpu"});
}

void OutputQueue::talk(std::string line) {
  shared_->put({nullptr, std::move(line), false});
}

uint64_t OutputQueue::dropped() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->dropped;
}

bool OutputQueue::drain(TimePoint deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_until(lock, deadline,
                                     [this] { return shared_->queue.empty() && !shared_->busy; });
}

void OutputQueue::drain(SignalCatcher& signals) {
  while (!drain(Monotonic::now() + std::chrono::milliseconds(100))) {
    for (const int number : signals.take()) {
      if (number == SIGCHLD) continue;
      abandon();
      return;
    }
  }
}

void OutputQueue::abandon() {
  if (shared_->thread.joinable()) shared_->thread.detach();
}

}  // namespace adaptdl::launch
