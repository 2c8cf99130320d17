// Limits of control groups. /proc/self/cgroup says which groups this process is in,
// /proc/self/mountinfo where their files are; in a container the latter may show only a part of the
// tree; its top then represents the groups above.

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/base/text.h"

namespace adaptdl {

namespace {

constexpr size_t kMaxControlFile = 4u << 20;

// A small file of /proc or /sys without its last newline; nothing if it cannot be read.
std::optional<std::string> slurp(const std::string& path) {
  try {
    std::string text = read_file(path, kMaxControlFile);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  } catch (const Error&) {
    return std::nullopt;  // optional information: an unreadable file counts as absent
  }
}

bool contains(const std::vector<std::string>& parts, const std::string& part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// mountinfo writes blanks, tabs, newlines and backslashes in paths as \ooo.
std::string unescape(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Mount {
  std::string top, point;  // the group at the mount point, and the mount point
};

// `controller` "" = the v2 hierarchy.
std::optional<Mount> find_mount(const std::string& root, const std::string& controller) {
  const auto text = slurp(join_path(root, "proc/self/mountinfo"));
  if (!text) return std::nullopt;
  for (const std::string& line : split(*text, '\n')) {
    // 31 23 0:27 TOP POINT OPTIONS [optional...] - TYPE SOURCE SUPER-OPTIONS
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3) continue;
    const bool matches = controller.empty()
                             ? after[0] == "cgroup2"
                             : after[0] == "cgroup" && contains(split(after[2], ','), controller);
    if (matches) return Mount{unescape(before[3]), unescape(before[4])};
  }
  return std::nullopt;
}

std::optional<std::string> own_group(const std::string& root, const std::string& controller) {
  const auto text = slurp(join_path(root, "proc/self/cgroup"));
  if (!text) return std::nullopt;
  for (const std::string& line : split(*text, '\n')) {
    // NUMBER:CONTROLLERS:PATH
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches = controller.empty() ? controllers.empty() && line.substr(0, first) == "0"
                                            : contains(split(controllers, ','), controller);
    if (matches) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Calls `visit` with the folder of this process's group and of every group above it.
void walk(const std::string& root, const std::string& controller,
          const std::function<void(const std::string&)>& visit) {
  const std::optional<Mount> mount = find_mount(root, controller);
  const std::optional<std::string> group = own_group(root, controller);
  if (!mount || !group) return;
  std::string below = *group;
  if (mount->top != "/") {
    const bool inside = below.starts_with(mount->top + "/") || below == mount->top;
    below = inside ? below.substr(mount->top.size()) : "";
  }
  const std::string point = absolute_path("./" + mount->point, absolute_path(root));
  const std::string folder = absolute_path("./" + below, point);
  // ".." in the group: it is outside of the tree that this process can see.
  const bool inside = folder == point || folder.starts_with(point == "/" ? "/" : point + "/");
  for (std::string at = inside ? folder : point;; at = parent_directory(at)) {
    visit(at);
    if (at.size() <= point.size()) return;
  }
}

template <typename T>
void lower_to(std::optional<T>& limit, T value) {
  if (!limit || value < *limit) limit = value;
}

}  // namespace

std::optional<double> cgroup_cpu_limit(const std::string& root) {
  std::optional<double> limit;
  const auto consider = [&](const std::string& quota, const std::string& period) {
    const auto quota_us = try_parse<double>(quota), period_us = try_parse<double>(period);
    if (quota_us && period_us && *quota_us > 0 && *period_us > 0) {  // "max" and -1: none
      lower_to(limit, *quota_us / *period_us);
    }
  };
  walk(root, "", [&](const std::string& folder) {
    const auto text = slurp(folder + "/cpu.max");
    if (!text) return;
    const std::vector<std::string> parts = split(*text, ' ');
    if (parts.size() == 2) consider(parts[0], parts[1]);
  });
  walk(root, "cpu", [&](const std::string& folder) {
    const auto quota = slurp(folder + "/cpu.cfs_quota_us");
    const auto period = slurp(folder + "/cpu.cfs_period_us");
    if (quota && period) consider(*quota, *period);
  });
  return limit;
}

std::optional<uint64_t> cgroup_memory_limit(const std::string& root) {
  std::optional<uint64_t> limit;
  const auto consider = [&](const std::string& path) {
    const auto text = slurp(path);
    const auto bytes = text ? try_parse<uint64_t>(*text) : std::nullopt;
    // v1 writes "no limit" as the largest multiple of the page size.
    if (bytes && *bytes < (uint64_t{1} << 62)) lower_to(limit, *bytes);
  };
  walk(root, "", [&](const std::string& folder) { consider(folder + "/memory.max"); });
  walk(root, "memory",
       [&](const std::string& folder) { consider(folder + "/memory.limit_in_bytes"); });
  return limit;
}

int available_cores(const std::string& root) {
  const int cores = affinity_cores();
  const std::optional<double> limit = cgroup_cpu_limit(root);
  if (!limit || *limit >= cores) return cores;
  return std::max(1, static_cast<int>(std::floor(*limit)));
}

}  // namespace adaptdl
