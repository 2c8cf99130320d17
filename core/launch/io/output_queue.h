#pragma once

// Passes events and messages to the user's sinks on a thread of its own, so that a stopped
// terminal, a full pipe or a slow disk does not block the run.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/signals.h"

namespace adaptdl::launch {

// Called on the queue's thread, in order, for each event of adaptdl-events(5), complete with event
// and time_s. Must not throw. The queue is bounded: while a sink is slow (a stopped terminal),
// training continues, and the queue drops the oldest `step` and `gpu` events only; the others are
// few. With 16 times its capacity of those, it drops the oldest entry, whatever it is. In the place
// of events that it has dropped the sinks get one event `dropped` {events}.
using EventSink = std::function<void(const nlohmann::json& event)>;

// Messages for the user (stderr): progress of the start, rescales, failures. Called on the queue's
// thread, like the sinks. Must not throw.
using Talk = std::function<void(const std::string& line)>;

// Thread-safe.
class OutputQueue {
 public:
  // `capacity`: with more waiting entries the oldest `step` and `gpu` events are dropped.
  OutputQueue(std::vector<EventSink> sinks, Talk talk, size_t capacity = 4096);
  ~OutputQueue();  // passes on the rest, unless abandoned
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;

  void event(nlohmann::json event);
  void talk(std::string line);
  uint64_t dropped() const;  // events; the event end reports them as dropped_events

  // True once everything has been passed on; waits for that, at most until the deadline.
  bool drain(TimePoint deadline);

  // Waits until the sinks have everything. A signal other than SIGCHLD ends the wait and abandons
  // the rest.
  void drain(SignalCatcher& signals);

  // Makes the destructor return without waiting for a sink that blocks. The sinks must then stay
  // valid until the process ends.
  void abandon();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace adaptdl::launch
