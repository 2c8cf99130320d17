#include "runtime/data/guarded_read.h"

#include <algorithm>
#include <cinttypes>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>

namespace adaptdl::data {
namespace {

// The thread's running call of read_guarded().
struct Guard {
  sigjmp_buf back;
  const void* failed = nullptr;
};
thread_local Guard* volatile running = nullptr;

struct sigaction previous;

// SIGBUS is raised by the thread that reads, in the middle of its own code.
void on_bus_error(int number, siginfo_t* info, void*) {
  Guard* guard = running;
  if (guard == nullptr || info->si_code <= 0) {
    // Not ours: the instruction is repeated and raises it again, for the one before.
    sigaction(number, &previous, nullptr);
    if (info->si_code <= 0) raise(number);  // sent by a process
    return;
  }
  guard->failed = info->si_addr;
  siglongjmp(guard->back, 1);
}

void install() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  // Without a change of the signal mask it need not be saved, which would take a system call.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous);
}

}  // namespace

const void* internal::call_guarded(void (*call)(const void*), const void* argument) {
  static std::once_flag once;
  std::call_once(once, install);
  Guard guard;
  Guard* const outer = running;
  running = &guard;
  if (sigsetjmp(guard.back, /*savesigs=*/0) == 0) call(argument);
  running = outer;
  return guard.failed;
}

std::optional<MappedPlace> mapped_place(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0, offset = 0;
    int path = 0;
    // proc(5): address range, permissions, offset, device, inode, path.
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &begin,
                    &end, &offset, &path) < 3) {
      continue;
    }
    if (wanted < begin || wanted >= end) continue;
    const std::string file = line.substr(std::min(line.size(), static_cast<size_t>(path)));
    if (path == 0 || !file.starts_with('/')) return std::nullopt;  // [stack], for example
    return MappedPlace{file, offset + (wanted - begin)};
  }
  return std::nullopt;
}

}  // namespace adaptdl::data
