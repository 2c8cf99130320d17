#include "core/launch/run/replica.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace adaptdl::launch {

void LocalProcess::kill() {
  child_.send_signal(SIGKILL);
}

std::optional<bool> LocalProcess::stop_change() {
  siginfo_t info{};
  const auto pid = static_cast<id_t>(child_.pid());
  if (waitid(P_PID, pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return info.si_code == CLD_STOPPED;
}

void reap_strangers(const std::function<bool(pid_t)>& ours) {
  if (getpid() != 1) return;
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (ours(info.si_pid)) return;  // its owner reaps it, then calls this again
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace adaptdl::launch
