#pragma once

// The resources of this machine and this process's share of them. Functions with a `root` read
// /proc and /sys below it, so that tests can provide their own. Thread-safe as long as nobody
// changes the environment.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace adaptdl {

// Processor cores that this thread may be scheduled on (affinity, cpusets). >= 1.
int affinity_cores();
std::vector<int> affinity_core_numbers();  // ascending, as the system counts them

// Processor time that control groups (v1 and v2, this process's and all above it) allow, in cores:
// 1.5 = 150 ms in every 100 ms. Nothing if unlimited.
std::optional<double> cgroup_cpu_limit(const std::string& root = "/");

// Memory that control groups allow, in bytes. Nothing if unlimited.
std::optional<uint64_t> cgroup_memory_limit(const std::string& root = "/");

// min(affinity, the control groups' limit rounded down), at least 1.
int available_cores(const std::string& root = "/");

// The smaller of the machine's memory and the control groups' limit, in bytes.
uint64_t available_memory(const std::string& root = "/");

// NVIDIA GPUs that CUDA would show, as the identifiers that CUDA_VISIBLE_DEVICES takes, found
// without any library. `visible`: the value of CUDA_VISIBLE_DEVICES; nothing if it is unset.
std::vector<std::string> gpus(const std::string& root, std::optional<std::string_view> visible);
std::vector<std::string> gpus();  // this machine's, by its CUDA_VISIBLE_DEVICES

// The model of this machine's processors, as the kernel calls it; "" if it does not.
std::string cpu_model(const std::string& root = "/");

// Differs between boots of a machine; "" if the kernel does not provide it.
std::string boot_id(const std::string& root = "/");

// When a process started, in clock ticks since boot: with its pid and boot_id() it identifies the
// process uniquely. Nothing if the process does not exist.
std::optional<uint64_t> process_start_time(pid_t pid, const std::string& root = "/");

std::string host_name();

// A variable's value; nothing if unset, or if empty unless `empty_counts`.
std::optional<std::string> environment_variable(const char* name, bool empty_counts = false);

// AdaptDL's folders of this user (XDG base directories; they may not exist yet):
// $XDG_STATE_HOME/adaptdl or ~/.local/state/adaptdl, and so on.
std::string state_directory();
std::string config_directory();
std::string cache_directory();
// $XDG_RUNTIME_DIR/adaptdl, else /tmp/adaptdl-UID; created (0700) if missing. Throws Error if
// another user owns it or others may enter it.
std::string runtime_directory();

bool is_terminal(int fd);
int terminal_width(int fd);  // columns; 80 if unknown

// Whether output to `fd` should have colours: a terminal, TERM is not dumb, NO_COLOR unset or
// empty.
bool wants_color(int fd);

}  // namespace adaptdl
