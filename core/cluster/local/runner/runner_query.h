#pragma once

// One request of the service to a runner.

#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/formats/json.h"

namespace adaptdl::local {

// A request to a runner's control socket that never blocks. Part of an event loop.
class RunnerQuery {
 public:
  // Connects and sends. If no runner listens, the query is over at once.
  RunnerQuery(const std::string& socket, const Json& request, Seconds timeout);

  int fd() const { return socket_.get(); }  // wait for POLLIN
  TimePoint deadline() const { return deadline_; }
  // Reads what has arrived. True: the query is over; answer() is null if no answer came.
  bool serve();
  const Json& answer() const { return answer_; }

 private:
  Fd socket_;
  std::string received_;
  TimePoint deadline_;
  Json answer_;
};

}  // namespace adaptdl::local
