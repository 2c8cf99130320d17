#pragma once

// What a process does, seen from outside. Functions with a `root` read /proc below it.

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "core/base/clock.h"

namespace adaptdl::launch {

// What a process has done so far.
struct ProcessWork {
  double cpu_s = 0;            // of all its threads
  uint64_t bytes = 0;          // read and written, by system calls
  bool in_the_kernel = false;  // a thread waits uninterruptibly, as for a disk
};

// Nothing if the process does not exist.
std::optional<ProcessWork> process_work(pid_t pid, const std::string& root = "/");

enum class Activity {
  unknown,  // the process is on another host, or was not looked at before
  idle,
  active,
};

// Whether it does something: within `passed` it computed for 1/20 of the time (a busy machine gives
// a process no more), or moved 64 KiB, or it waits for a disk.
bool is_active(const ProcessWork& before, const ProcessWork& now, Seconds passed);

// Whether the process is ending, or has ended and was not reaped.
bool is_ending(pid_t pid, const std::string& root = "/");

// For people who look for the reason of a hang: the state of each thread, where it waits in the
// kernel and, if eu-stack or gdb is installed, where in the program. May take 10 s. Lines.
std::string describe_process(pid_t pid);

}  // namespace adaptdl::launch
