#include "cli/commands/job_logs.h"

#include <memory>
#include <thread>

#include "cli/frame/output.h"
#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

constexpr auto kLogInterval = std::chrono::milliseconds(200);

// Prints complete lines, each in one write.
LogLine printer(const LogOptions& options) {
  return [options](int64_t replica, const std::string& line) {
    if (options.prefix) {
      print_line(fmt::format("[{}/{}] {}", options.name, replica, line));
    } else if (options.replica) {
      print_line(line);
    } else {
      print_line(fmt::format("[replica {}] {}", replica, line));
    }
  };
}

}  // namespace

bool show_logs(JobQuery& query, const LogOptions& options) {
  const std::unique_ptr<LogReader> reader = query.logs(options);
  const LogLine print_log = printer(options);
  while (options.follow) {
    // Ask before reading: then lines up to the end are certainly read.
    const bool more = reader->may_grow();
    const bool any = reader->next(print_log, !more);
    if (!more) break;
    if (!any) std::this_thread::sleep_for(kLogInterval);
  }
  reader->next(print_log, true);
  if (reader->replicas() == 0 && options.replica) {
    fail("{} has no log of replica {}", options.name, *options.replica);
  }
  return reader->replicas() > 0;
}

std::function<void(bool ended)> job_log_printer(JobQuery& query, const std::string& job) {
  const LogOptions options{.name = job, .follow = true};
  const std::shared_ptr<LogReader> reader = query.logs(options);
  const LogLine print_log = printer({.name = job});
  return [reader, print_log](bool ended) { reader->next(print_log, ended); };
}

}  // namespace adaptdl::cli
