#include "core/launch/run/process_look.h"

#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/process.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMaxLookFile = 1u << 20;
constexpr double kActiveShare = 0.05;
constexpr uint64_t kActiveBytes = 64 << 10;
constexpr Seconds kStackPatience{10};
constexpr uint64_t kExitingFlag = 0x4;  // PF_EXITING of the kernel

std::string proc_text(const std::string& path) {
  try {
    return read_file(path, kMaxLookFile);
  } catch (const Error&) {  // it ended, or we may not read this
    return "";
  }
}

// The fields of a `stat` file from the third on: those after the name, which may contain blanks and
// parentheses.
std::vector<std::string> stat_fields(const std::string& path) {
  const std::string text = proc_text(path);
  const size_t name_end = text.rfind(')');
  std::vector<std::string> fields;
  for (size_t at = name_end; at < text.size();) {
    const size_t begin = text.find_first_not_of(" \n", at + 1);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_of(" \n", begin), text.size());
    fields.push_back(text.substr(begin, at - begin));
  }
  return fields;
}

uint64_t field(const std::vector<std::string>& fields, size_t number) {
  return number - 3 < fields.size() ? try_parse<uint64_t>(fields[number - 3]).value_or(0) : 0;
}

// The number in the line "NAME: NUMBER".
uint64_t line_number(const std::string& text, const std::string& name) {
  const size_t at = ("\n" + text).find("\n" + name + ": ");
  if (at == std::string::npos) return 0;
  const size_t begin = at + name.size() + 2;
  return try_parse<uint64_t>(text.substr(begin, text.find('\n', begin) - begin)).value_or(0);
}

std::vector<std::string> threads_of(const std::string& folder) {
  try {
    return list_directory(folder + "/task");
  } catch (const Error&) {
    return {};
  }
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "-" : text;
}

std::string user_stacks(pid_t pid) {
  const std::string number = std::to_string(pid);
  const std::vector<std::vector<std::string>> tools = {
      {"eu-stack", "-p", number},
      {"gdb", "-p", number, "-batch", "-nx", "-ex", "thread apply all bt"}};
  for (const auto& tool : tools) {
    try {
      const CapturedRun run = run_and_capture({.argv = tool}, kStackPatience, true);
      if (run.status.success() && !run.output.empty()) return tool[0] + ":\n" + run.output;
    } catch (const Error&) {  // not installed, or not allowed to
    }
  }
  return "";
}

}  // namespace

std::optional<ProcessWork> process_work(pid_t pid, const std::string& root) {
  const std::string folder = join_path(root, fmt::format("proc/{}", pid));
  const auto stat = stat_fields(folder + "/stat");
  if (stat.empty()) return std::nullopt;
  ProcessWork work;
  work.cpu_s = static_cast<double>(field(stat, 14) + field(stat, 15)) /
               static_cast<double>(sysconf(_SC_CLK_TCK));
  const std::string io = proc_text(folder + "/io");
  work.bytes = line_number(io, "rchar") + line_number(io, "wchar");
  for (const std::string& thread : threads_of(folder)) {
    const auto fields = stat_fields(folder + "/task/" + thread + "/stat");
    work.in_the_kernel = work.in_the_kernel || (!fields.empty() && fields[0] == "D");
  }
  return work;
}

bool is_active(const ProcessWork& before, const ProcessWork& now, Seconds passed) {
  return now.in_the_kernel || now.cpu_s - before.cpu_s >= kActiveShare * passed.count() ||
         now.bytes - before.bytes >= kActiveBytes;
}

bool is_ending(pid_t pid, const std::string& root) {
  const auto stat = stat_fields(join_path(root, fmt::format("proc/{}/stat", pid)));
  if (stat.empty()) return false;
  return stat[0] == "Z" || stat[0] == "X" || (field(stat, 9) & kExitingFlag) != 0;
}

std::string describe_process(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  std::string text;
  for (const std::string& thread : threads_of(folder)) {
    const std::string at = folder + "/task/" + thread + "/";
    const auto stat = stat_fields(at + "stat");
    if (stat.empty()) continue;
    text += fmt::format("thread {} ({}): state {}, waits in {}, system call {}\n", thread,
                        one_line(proc_text(at + "comm")), stat[0],
                        one_line(proc_text(at + "wchan")), one_line(proc_text(at + "syscall")));
    const std::string kernel = proc_text(at + "stack");
    if (!kernel.empty()) text += kernel;
  }
  return text + user_stacks(pid);
}

}  // namespace adaptdl::launch
