#include "core/client/kubernetes/exec.h"

#include <cerrno>
#include <csignal>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/console.h"
#include "core/base/error.h"
#include "core/base/interruption.h"
#include "core/client/kubernetes/pods.h"
#include "core/kube/exec.h"

namespace adaptdl::client {
namespace {

// Sets the terminal to raw mode: it passes on every key, Ctrl-C included, and echoes nothing.
class RawTerminal {
 public:
  RawTerminal() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) fail_errno(errno, "the terminal");
    termios raw = before_;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~RawTerminal() { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
};

kube::TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

// Ignores errors, since there is no other place to report them.
void write_errors(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDERR_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

int exec_with_terminal(KubernetesConnection& cluster, const RunningPod& pod,
                       kube::ExecOptions options) {
  options.terminal = true;
  options.size = terminal_size;
  Interruption interruption({SIGTERM, SIGHUP});  // restores the terminal before they end us
  try {
    const RawTerminal raw;
    return kube::exec(cluster.client(), pod.pod, options, &interruption.cancellation());
  } catch (const Cancelled&) {
    return 128 + interruption.signal();
  }
}

}  // namespace

std::optional<int> start_failure(const std::string& message) {
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  if (says("executable file not found") || says("no such file or directory")) {
    return kCommandNotFound;
  }
  if (says("permission denied") || says("exec format error")) return kCommandNotExecutable;
  return std::nullopt;
}

int exec_in_pod(KubernetesConnection& cluster, const Json& job, const ExecRequest& request) {
  const auto pod = running_pod(cluster, job, request.replica);
  if (!pod) {
    const std::string which =
        request.replica ? fmt::format("replica {}", *request.replica) : "replica";
    fail("{} has no running {}; `adaptdl describe {}` shows why", request.job, which, request.job);
  }
  kube::ExecOptions options;
  options.container = pod->container;
  options.command = request.words;
  options.input = STDIN_FILENO;
  options.output = [](std::string_view bytes) { print(bytes); };
  options.errors = write_errors;
  return cluster.reach([&]() -> int {
    try {
      if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
        return exec_with_terminal(cluster, *pod, options);
      }
      return kube::exec(cluster.client(), pod->pod, options);
    } catch (const kube::ApiError& error) {
      const auto code = start_failure(error.status().message);
      if (!code) throw;
      talk(fmt::format("adaptdl: {}: {}", request.words[0], error.status().message));
      return *code;
    }
  });
}

}  // namespace adaptdl::client
