#pragma once

// Child processes. The child gets only the listed descriptors and the standard ones, default signal
// handlers and an empty signal mask. Needs Linux 5.3 (pidfds).

#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"

namespace adaptdl {

// How a process ended.
struct ExitStatus {
  bool signaled = false;
  int value = 0;  // exit code, or the signal's number

  bool success() const { return !signaled && value == 0; }
  int shell_code() const { return signaled ? 128 + value : value; }
  std::string describe() const;  // "exit code 3", "killed by signal 9 (Killed)"
};
ExitStatus decode_wait_status(int status);  // of waitpid(2)

// A program held as bytes in this process rather than in a file. Kept in a sealed memfd. Where the
// kernel refuses to execute memfds (vm.memfd_noexec), it becomes a 0700 file in `cache_folder`,
// created when first needed and shared by all processes with the same bytes. Not thread-safe while
// spawning.
class ExecutableImage {
 public:
  // Copies the bytes. /proc shows `name`. Throws Error if neither way works.
  ExecutableImage(std::span<const std::byte> program, const std::string& name,
                  const std::string& cache_folder);

  int fd() const { return fd_.get(); }
  bool in_memory() const { return in_memory_; }

  // Moves to the cache file. spawn() calls it when the kernel refuses to execute the memfd.
  void move_to_file();

 private:
  std::string contents() const;
  void store(std::string_view program);

  std::string name_, cache_folder_;
  Fd fd_;
  bool in_memory_ = false;
};

struct SpawnOptions {
  std::vector<std::string> argv;  // at least argv[0]
  // What to execute: `image`, else `path` if given, else argv[0]; a bare name is searched in PATH.
  std::string path;
  ExecutableImage* image = nullptr;
  std::optional<std::vector<std::string>> environment;  // "NAME=VALUE"; none: this process's
  std::string directory;                                // "" = this process's
  // {descriptor here, its number in the child}. 0, 1 and 2 are inherited unless set here; nothing
  // else is. The descriptors here stay open and unchanged.
  std::vector<std::pair<int, int>> descriptors;
  // The kernel sends SIGKILL to the child when the *thread* that spawned it ends, for any reason:
  // spawn from a thread that lives as long as the process.
  bool die_with_parent = true;
  bool new_process_group = false;  // and session: the terminal's Ctrl-C does not reach it
  std::vector<int> cores;          // the cores it may run on; empty: as this thread
};

// A child of this process. The destructor kills and reaps it if it still runs. Movable. One thread.
class Child {
 public:
  Child() = default;
  Child(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  explicit operator bool() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once it has ended
  bool running() const { return pid_ > 0 && !status_; }

  // Detaches the child and returns its pid; this object is then empty. Nobody kills or reaps it.
  pid_t release();

  // Sends a signal; false if the child has ended. Never signals another process that reused its
  // pid.
  bool send_signal(int signal);

  // Reaps the child and returns how it ended: without waiting (poll), waiting until the deadline
  // (wait_until), or without limit (wait).
  std::optional<ExitStatus> poll();
  std::optional<ExitStatus> wait_until(TimePoint deadline);
  ExitStatus wait();

 private:
  std::optional<ExitStatus> reap(int flags);

  pid_t pid_ = -1;
  Fd pidfd_;
  std::optional<ExitStatus> status_;
};

// The system refuses to execute a program, or there is none.
class CannotExecute : public Error {
 public:
  using Error::Error;
};

// Starts a program. On failure no child exists, and the Error names the step (folder, descriptor,
// cores, execution: CannotExecute) and the reason. Thread-safe, but see die_with_parent.
Child spawn(const SpawnOptions& options);

// Raises this process's limit of open descriptors to the hard limit, at most 65,536. Children get
// the previous limit, because a program that uses select() may rely on it. Call once, before other
// threads spawn. Does nothing if the limit is already high enough.
void raise_descriptor_limit();

// Runs the program to its end and captures at most `max_bytes` of standard output (and of standard
// error if `with_stderr`). After `timeout`, or beyond `max_bytes`, kills the child and throws
// Error.
struct CapturedRun {
  ExitStatus status;
  std::string output;
};
CapturedRun run_and_capture(SpawnOptions options, Seconds timeout, bool with_stderr = false,
                            size_t max_bytes = 16u << 20);

// This process's environment with changes {NAME, VALUE}; an absent VALUE removes NAME.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::optional<std::string>>>& changes);

}  // namespace adaptdl
