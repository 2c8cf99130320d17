#pragma once

// Hands events and sentences to the user's sinks in a thread of its own, so that a stopped
// terminal, a full pipe or a slow disk holds up nothing but itself.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/run.h"

namespace adaptdl::launch {

// Thread-safe.
class Output {
 public:
  // `capacity`: beyond so many waiting entries the oldest `step` events are dropped; others stay.
  Output(std::vector<EventSink> sinks, Talk talk, size_t capacity = 4096);
  ~Output();  // hands out the rest, unless abandoned
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void event(nlohmann::json event);
  void talk(std::string line);
  uint64_t dropped() const;  // step events

  // True once everything has been handed out; waits for that, at most until the deadline.
  bool drain(TimePoint deadline);

  // The destructor shall not wait for a sink that does not come back. The sinks must then stay
  // valid until the process ends.
  void abandon();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace adaptdl::launch
