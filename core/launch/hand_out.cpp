#include "core/launch/hand_out.h"

#include <signal.h>

namespace adaptdl::launch {

std::vector<int> caught_signals() {
  std::vector<int> caught{SIGINT, SIGTERM, SIGCHLD};
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) caught.push_back(SIGHUP);  // nohup keeps its meaning
  return caught;
}

void hand_out(Output& output, SignalCatcher& signals) {
  while (!output.drain(Monotonic::now() + std::chrono::milliseconds(100))) {
    for (const int number : signals.take()) {
      if (number == SIGCHLD) continue;
      output.abandon();
      return;
    }
  }
}

}  // namespace adaptdl::launch
