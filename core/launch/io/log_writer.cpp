#include "core/launch/io/log_writer.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/pipe.h"
#include "core/base/poll.h"
#include "core/base/text.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kTailBytes = 8 << 10;
constexpr size_t kLineBytes = 300;
constexpr const char* kTimes = ".times";

// The last lines of `text`, for people.
std::vector<std::string> last_lines(const std::string& text, int count) {
  std::vector<std::string> lines;
  size_t end = text.size();
  while (end > 0 && static_cast<int>(lines.size()) < count) {
    const size_t newline = text.rfind('\n', end - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    std::string line = without_controls(text.substr(begin, std::min(end - begin, kLineBytes)));
    if (line.find_first_not_of(' ') != std::string::npos) lines.insert(lines.begin(), line);
    end = newline == std::string::npos ? 0 : newline;
  }
  return lines;
}

// Returns the write end.
Fd new_pipe(Fd& reader) {
  Pipe pipe;
  set_nonblocking(pipe.reader.get());  // only this end
  reader = std::move(pipe.reader);
  return std::move(pipe.writer);
}

}  // namespace

int64_t log_offset_at(const std::string& path, double wall_s) {
  const std::string times = path + kTimes;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) fail_errno(errno, path);
  const auto size = static_cast<int64_t>(status.st_size);
  if (!path_exists(times)) {  // written by an older version: treat it as one piece
    return static_cast<double>(status.st_mtime) < wall_s ? size : 0;
  }
  const std::string text = read_file(times, 64u << 20);
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    start = end + 1;
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const auto offset = try_parse<int64_t>(line.substr(0, blank));
    const auto written_s = try_parse<double>(line.substr(blank + 1));
    if (offset && written_s && *written_s >= std::floor(wall_s)) return std::min(*offset, size);
  }
  return size;
}

struct LogWriter::Log {
  MemberId member = 0;
  Fd pipes[2];       // by stream - 1; under the mutex
  std::string tail;  // likewise
  std::string path;  // this and the rest are the thread's only, because disks may be slow
  Fd file;
  int open_error = 0;  // errno, if there is no file
  int64_t size = 0;
  Fd times;  // none if it cannot be opened: only `--since` needs it
  int64_t times_size = 0;
  bool at_line_start = true;
  double stamped_s = 0;

  bool closed() const { return !pipes[0] && !pipes[1]; }

  void remember(std::string_view bytes) {
    tail.append(bytes);
    if (tail.size() > 2 * kTailBytes) tail.erase(0, tail.size() - kTailBytes);
  }

  // 0, or the errno of the write that lost this part of the log.
  int write(std::string_view bytes, int64_t bytes_max) {
    if (size > 0 && size + static_cast<int64_t>(bytes.size()) > bytes_max) rotate();
    if (!file) return open_error;
    if (at_line_start) stamp();
    at_line_start = bytes.ends_with('\n');
    while (!bytes.empty()) {
      const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      bytes.remove_prefix(static_cast<size_t>(n));
      size += n;
    }
    return 0;
  }

  // Records the time of the bytes that follow. The file never grows beyond the log's size, or a
  // page.
  void stamp() {
    const double now_s = wall_now_s();
    if (!times || std::abs(now_s - stamped_s) < 1 || times_size > size + 4096) return;
    stamped_s = now_s;
    const std::string line = fmt::format("{} {:.0f}\n", size, std::floor(now_s));
    if (::write(times.get(), line.data(), line.size()) > 0) {
      times_size += static_cast<int64_t>(line.size());
    }
  }

  void open_file() {
    file = Fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    open_error = errno;
    struct stat status {};
    size = file && fstat(file.get(), &status) == 0 ? status.st_size : 0;
    const std::string name = path + kTimes;
    times = Fd(::open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    times_size = times && fstat(times.get(), &status) == 0 ? status.st_size : 0;
    stamped_s = 0;
  }

  void rotate() {
    // The cap also holds in a folder where files cannot be renamed.
    const bool renamed = std::rename(path.c_str(), (path + ".1").c_str()) == 0;
    if (!renamed && file && ftruncate(file.get(), 0) == 0) {
      size = 0;
      if (times && ftruncate(times.get(), 0) == 0) times_size = 0;
      return;
    }
    std::rename((path + kTimes).c_str(), (path + ".1" + kTimes).c_str());
    open_file();
  }
};

LogWriter::LogWriter(std::string folder, int64_t bytes_max, std::function<void(std::string)> talk,
                     Echo echo)
    : folder_(std::move(folder)),
      bytes_max_(bytes_max),
      talk_(std::move(talk)),
      echo_(std::move(echo)),
      wake_(eventfd(0, EFD_CLOEXEC)) {
  make_directories(folder_, 0700);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "logs");
    loop();
  });
}

LogWriter::~LogWriter() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake();
  thread_.join();
}

std::string LogWriter::file_name(MemberId member) {
  return fmt::format("replica-{}.log", member);
}

void LogWriter::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

LogWriter::Echo LogWriter::to_standard_error() {
  return [](MemberId, int, std::string_view bytes) {
    [[maybe_unused]] const ssize_t shown = ::write(STDERR_FILENO, bytes.data(), bytes.size());
  };
}

std::shared_ptr<LogWriter::Log> LogWriter::add(MemberId member) {
  auto log = std::make_shared<Log>();
  log->member = member;
  log->path = join_path(folder_, file_name(member));
  log->open_file();
  return log;
}

void LogWriter::begin(std::shared_ptr<Log> log) {
  {
    std::lock_guard lock(mutex_);
    logs_[log->member] = std::move(log);
  }
  wake();
}

Fd LogWriter::open(MemberId member) {
  const auto log = add(member);
  Fd writer = new_pipe(log->pipes[0]);
  begin(log);
  return writer;
}

LogWriter::Streams LogWriter::open_streams(MemberId member) {
  const auto log = add(member);
  Streams streams{new_pipe(log->pipes[0]), new_pipe(log->pipes[1])};
  begin(log);
  return streams;
}

void LogWriter::take(Log& log, int stream) {
  Fd& pipe = log.pipes[stream - 1];
  char chunk[16 << 10];
  const ssize_t n = ::read(pipe.get(), chunk, sizeof chunk);
  if (n > 0) {
    const std::string_view bytes(chunk, static_cast<size_t>(n));
    {
      std::lock_guard lock(mutex_);
      log.remember(bytes);
    }
    if (const int error = log.write(bytes, bytes_max_)) complain(log.path, error);
    if (echo_) echo_(log.member, stream, bytes);
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    if (echo_) echo_(log.member, stream, {});
    std::lock_guard lock(mutex_);
    pipe.reset();
    if (!log.closed()) return;
    log.file.reset();
    log.times.reset();
    closed_.notify_all();
  }
}

void LogWriter::complain(const std::string& path, int error) {
  if (!std::exchange(complained_, true)) {
    talk_(fmt::format("{}: {}; the output of the replicas is lost, training continues", path,
                      std::strerror(error)));
  }
}

void LogWriter::loop() {
  for (;;) {
    std::vector<std::pair<std::shared_ptr<Log>, int>> open;
    std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
    bool quit = false;
    {
      std::lock_guard lock(mutex_);
      quit = quit_;
      for (const auto& [member, log] : logs_) {
        for (int stream = 1; stream <= 2; ++stream) {
          const Fd& pipe = log->pipes[stream - 1];
          if (!pipe) continue;
          open.emplace_back(log, stream);
          waits.push_back({pipe.get(), POLLIN, 0});
        }
      }
    }
    // At the end: read what is there, but do not wait for processes that still hold a pipe.
    const int ready = ::poll(waits.data(), waits.size(), quit ? 0 : -1);
    if (ready < 0) continue;
    if (waits[0].revents != 0) {
      uint64_t count;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    }
    bool any = false;
    for (size_t i = 0; i < open.size(); ++i) {
      if (waits[i + 1].revents == 0) continue;
      any = true;
      take(*open[i].first, open[i].second);
    }
    if (quit && !any) return;
  }
}

std::vector<std::string> LogWriter::final_lines(MemberId member) {
  // They are complete once the log thread has read them, so the wait is short.
  return tail(member, 20, Monotonic::now() + std::chrono::milliseconds(100));
}

std::vector<std::string> LogWriter::tail(MemberId member, int count, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto found = logs_.find(member);
  if (found == logs_.end()) return {};
  const std::shared_ptr<Log> log = found->second;
  closed_.wait_until(lock, deadline, [&] { return log->closed(); });
  return last_lines(log->tail, count);
}

}  // namespace adaptdl::launch
