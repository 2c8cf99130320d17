#pragma once

// One control link to every other member, watched by a thread. It reports death (the link closes
// without a leave message), departure and abort; collectives use other connections.

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/net/stream.h"
#include "runtime/comm/cpu/wire.h"

namespace adaptdl::comm {

class ControlLinks {
 public:
  struct Events {
    // The watching thread makes all calls; they must not destroy the ControlLinks.
    std::function<void(int rank, const std::string& reason)> aborted;
    std::function<void(int rank, uint64_t calls)> left;
    std::function<void(int rank)> lost;
    // The thread's first and last actions.
    std::function<void()> started, stopping;
  };

  // `streams`: by rank, empty for this rank. Call start() once; no event comes before it.
  ControlLinks(uint64_t generation, std::vector<Stream> streams);
  ~ControlLinks();  // ends the thread, closes the links
  void start(Events events);

  // Sends to all others, without blocking. If a socket is full the message is lost; the link then
  // closes, which has the same effect. Any thread.
  void tell_all(const ControlMessage& message) noexcept;

 private:
  struct Link {
    Stream stream;
    ControlParser parser;
    bool left = false;
  };

  void run();
  // False if the link is closed and needs no more watching.
  bool read_link(size_t rank);

  const uint64_t generation_;
  std::vector<Link> links_;
  Events events_;
  Fd epoll_, stop_;
  std::mutex sending_;  // messages must not interleave
  std::thread thread_;
};

}  // namespace adaptdl::comm
