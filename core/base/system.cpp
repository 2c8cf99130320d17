#include "core/base/system.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <pwd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"

namespace adaptdl {

namespace {

constexpr size_t kMaxFile = 1u << 20;

std::string home_directory() {
  if (const auto home = environment_variable("HOME")) return *home;
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found != nullptr) {
    return found->pw_dir;
  }
  fail("cannot determine your home folder: set HOME");
}

std::string xdg_directory(const char* variable, const char* below_home) {
  const auto base = environment_variable(variable);
  // The specification says to ignore relative paths.
  if (base && base->front() == '/') return join_path(*base, "adaptdl");
  return join_path(join_path(home_directory(), below_home), "adaptdl");
}

// The numbers N of entries called PREFIX N in a folder that may not exist.
std::vector<int> numbered_entries(const std::string& folder, std::string_view prefix) {
  std::vector<int> numbers;
  if (!is_directory(folder)) return numbers;
  for (const std::string& name : list_directory(folder)) {
    if (!name.starts_with(prefix)) continue;
    if (const auto number = try_parse<int>(std::string_view(name).substr(prefix.size()))) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

size_t count_gpus(const std::string& root) {
  const std::string driver = join_path(root, "proc/driver/nvidia/gpus");
  const size_t devices = numbered_entries(join_path(root, "dev"), "nvidia").size();
  if (!is_directory(driver)) return devices;
  // The driver lists all GPUs of the machine; a container has device files only for its own.
  const size_t listed = list_directory(driver).size();
  return devices == 0 ? listed : std::min(devices, listed);
}

}  // namespace

std::vector<int> affinity_core_numbers() {
  std::vector<int> numbers;
  // The kernel refuses a set that is smaller than the machine's.
  for (int size = 1024; size <= 1 << 20; size *= 2) {
    cpu_set_t* set = CPU_ALLOC(size);
    const size_t bytes = CPU_ALLOC_SIZE(size);
    const int failed = sched_getaffinity(0, bytes, set);
    const int error = errno;
    for (int core = 0; !failed && core < size; ++core) {
      if (CPU_ISSET_S(core, bytes, set)) numbers.push_back(core);
    }
    CPU_FREE(set);
    if (!numbers.empty()) return numbers;
    if (error != EINVAL) break;
  }
  const int count = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  for (int core = 0; core < count; ++core) numbers.push_back(core);
  return numbers;
}

int affinity_cores() {
  return static_cast<int>(affinity_core_numbers().size());
}

uint64_t available_memory(const std::string& root) {
  const auto machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_memory_limit(root).value_or(machine));
}

std::vector<std::string> gpus(const std::string& root, std::optional<std::string_view> visible) {
  const size_t count = count_gpus(root);
  std::vector<std::string> found;
  if (!visible) {
    for (size_t i = 0; i < count; ++i) found.push_back(fmt::format("{}", i));
    return found;
  }
  // As in the CUDA driver: the first entry that is invalid or a duplicate ends the list. Names by
  // UUID (GPU-..., MIG-...) cannot be checked without a library.
  for (size_t begin = 0; count > 0 && begin <= visible->size();) {
    const size_t end = std::min(visible->find(',', begin), visible->size());
    std::string_view entry = visible->substr(begin, end - begin);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    const auto index = try_parse<size_t>(entry);
    const bool named = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!named && !(index && *index < count)) break;
    if (std::find(found.begin(), found.end(), entry) != found.end()) break;
    found.emplace_back(entry);
    begin = end + 1;
  }
  return found;
}

std::vector<std::string> gpus() {
  return gpus("/", environment_variable("CUDA_VISIBLE_DEVICES", true));
}

std::string cpu_model(const std::string& root) {
  const std::string path = join_path(root, "proc/cpuinfo");
  if (!path_exists(path)) return "";
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string boot_id(const std::string& root) {
  const std::string path = join_path(root, "proc/sys/kernel/random/boot_id");
  if (!path_exists(path)) return "";
  std::string text = read_file(path, kMaxFile);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::optional<uint64_t> process_start_time(pid_t pid, const std::string& root) {
  const std::string path = join_path(root, fmt::format("proc/{}/stat", pid));
  std::string text;
  try {
    text = read_file(path, kMaxFile);
  } catch (const Error&) {
    return std::nullopt;  // it ended
  }
  // Field 22; count fields after the name, which may contain blanks and parentheses.
  size_t at = text.rfind(')');
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  const size_t end = std::min(text.find(' ', at + 1), text.size());
  return try_parse<uint64_t>(std::string_view(text).substr(at + 1, end - at - 1));
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

std::optional<std::string> environment_variable(const char* name, bool empty_counts) {
  const char* value = std::getenv(name);
  if (value == nullptr || (*value == '\0' && !empty_counts)) return std::nullopt;
  return value;
}

std::string state_directory() {
  return xdg_directory("XDG_STATE_HOME", ".local/state");
}
std::string config_directory() {
  return xdg_directory("XDG_CONFIG_HOME", ".config");
}
std::string cache_directory() {
  return xdg_directory("XDG_CACHE_HOME", ".cache");
}

std::string runtime_directory() {
  const auto base = environment_variable("XDG_RUNTIME_DIR");
  const bool usable = base && base->front() == '/' && is_directory(*base);
  std::string path =
      usable ? join_path(*base, "adaptdl") : fmt::format("/tmp/adaptdl-{}", geteuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    fail_errno(errno, path + ": cannot create this folder");
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) fail_errno(errno, path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 0077) != 0) {
    fail(
        "{}: must be a folder that you own and others cannot enter (chmod 700); fix it, or set "
        "XDG_RUNTIME_DIR to such a folder",
        path);
  }
  return path;
}

bool is_terminal(int fd) {
  return isatty(fd) == 1;
}

int terminal_width(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool wants_color(int fd) {
  return is_terminal(fd) && !environment_variable("NO_COLOR") &&
         environment_variable("TERM").value_or("dumb") != "dumb";
}

}  // namespace adaptdl
