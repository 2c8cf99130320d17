#pragma once

// One control link to every other member, watched by a thread: death (the link ends without a
// farewell), departure and abort arrive here while collectives use other ways.

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "runtime/comm/cpu/wire.h"

namespace adaptdl::comm {

class ControlLinks {
 public:
  struct Events {
    // All are called by the watching thread; they must not destroy the ControlLinks.
    std::function<void(int rank, const std::string& reason)> aborted;
    std::function<void(int rank, uint64_t calls)> left;
    std::function<void(int rank)> lost;
    // The first and the last that the thread does.
    std::function<void()> started, stopping;
  };

  // `sockets`: by rank, this rank's own empty. Call start() once; no event comes before.
  ControlLinks(uint64_t generation, std::vector<Fd> sockets);
  ~ControlLinks();  // ends the thread, closes the links
  void start(Events events);

  // To all others, without blocking; what a full socket does not take is lost (the link's end
  // follows and says as much). Any thread.
  void tell_all(const ControlMessage& message) noexcept;

  int socket(int rank) const { return sockets_[static_cast<size_t>(rank)].get(); }

 private:
  struct Link {
    ControlParser parser;
    bool left = false;
  };

  void run();
  // False when the link has ended and need not be watched any more.
  bool read_link(size_t rank);

  const uint64_t generation_;
  std::vector<Fd> sockets_;
  std::vector<Link> links_;
  Events events_;
  Fd epoll_, stop_;
  std::mutex sending_;  // messages must not interleave
  std::thread thread_;
};

}  // namespace adaptdl::comm
