#pragma once

// One request of the service to a runner.

#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/formats/json.h"

namespace adaptdl::local {

// To a runner's control socket, without ever waiting. Part of an event loop.
class RunnerQuery {
 public:
  // Connects and sends. If nobody is there who could answer, it is over at once.
  RunnerQuery(const std::string& socket, const Json& request, Seconds timeout);

  int fd() const { return socket_.get(); }  // wait for POLLIN
  TimePoint deadline() const { return deadline_; }
  // Reads what is there. True: it is over; answer() is what came, null if nothing did.
  bool serve();
  const Json& answer() const { return answer_; }

 private:
  Fd socket_;
  std::string received_;
  TimePoint deadline_;
  Json answer_;
};

}  // namespace adaptdl::local
