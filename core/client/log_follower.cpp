#include "core/client/log_follower.h"

#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/launch/io/log_writer.h"

namespace adaptdl::client {
namespace {

constexpr std::string_view kPrefix = "replica-", kSuffix = ".log";

std::optional<int64_t> replica_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(kSuffix.size(), name.size()));
  return try_parse<int64_t>(name);
}

// Passes on the complete lines of `text`, and keeps what follows the last newline.
void give_lines(std::string& text, int64_t replica, const LogLine& take) {
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    take(replica, text.substr(start, end - start));
  }
  text.erase(0, start);
}

}  // namespace

LogFollower::LogFollower(std::string folder, std::optional<int64_t> only)
    : folder_(std::move(folder)), only_(only) {}

std::string LogFollower::path(int64_t replica) const {
  return join_path(folder_, fmt::format("{}{}{}", kPrefix, replica, kSuffix));
}

void LogFollower::find_new() {
  if (!is_directory(folder_)) return;
  for (const std::string& name : list_directory(folder_)) {
    const std::optional<int64_t> replica = replica_of(name);
    if (!replica || (only_ && *replica != *only_) || logs_.count(*replica) > 0) continue;
    logs_[*replica].file = open_file(path(*replica), O_RDONLY);
  }
}

void LogFollower::tail(std::optional<int64_t> count, std::optional<Seconds> since,
                       const LogLine& take) {
  find_new();
  const double now_s = wall_now_s();
  const auto skip = [&](const std::string& name, const Fd& file) {
    if (!since) return;
    const int64_t from = launch::log_offset_at(name, now_s - since->count());
    if (lseek(file.get(), from, SEEK_SET) < 0) fail_errno(errno, name + ": cannot seek");
  };
  for (auto& [replica, log] : logs_) {
    std::deque<std::string> lines;
    const LogLine keep = [&, count = count](int64_t, const std::string& line) {
      lines.push_back(line);
      if (count && static_cast<int64_t>(lines.size()) > *count) lines.pop_front();
    };
    const std::string older = path(replica) + ".1";
    if (path_exists(older)) {
      Log rotated{.file = open_file(older, O_RDONLY), .partial = {}};
      skip(older, rotated.file);
      read(replica, rotated, keep);
      log.partial = std::move(rotated.partial);  // a rotation may cut a line in two
    }
    // What follows a cut line is as new as that.
    if (log.partial.empty()) skip(path(replica), log.file);
    read(replica, log, keep);
    if (count && !log.partial.empty()) {  // the last line, which next() passes on
      if (*count == 0) log.partial.clear();
      if (*count > 0 && static_cast<int64_t>(lines.size()) == *count) lines.pop_front();
    }
    for (const std::string& line : lines) take(replica, line);
  }
}

bool LogFollower::read(int64_t replica, Log& log, const LogLine& take) {
  bool any = false;
  char buffer[16384];
  for (;;) {
    const ssize_t count = ::read(log.file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(errno, path(replica) + ": cannot read");
    if (count == 0) return any;
    any = true;
    log.partial.append(buffer, static_cast<size_t>(count));
    give_lines(log.partial, replica, take);
  }
}

bool LogFollower::next(const LogLine& take, bool all) {
  find_new();
  bool any = false;
  for (auto& [replica, log] : logs_) {
    any = read(replica, log, take) || any;
    struct stat open {
    }, named{};
    if (fstat(log.file.get(), &open) == 0 && stat(path(replica).c_str(), &named) == 0 &&
        open.st_ino != named.st_ino) {  // rotated; the lines before the rotation have been read
      any = read(replica, log, take) || any;
      log.file = open_file(path(replica), O_RDONLY);
      any = read(replica, log, take) || any;
    }
    if (all && !log.partial.empty()) {
      take(replica, log.partial);
      log.partial.clear();
    }
  }
  return any;
}

}  // namespace adaptdl::client
