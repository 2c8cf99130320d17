#include "cli/job_logs.h"

#include <memory>
#include <thread>

#include "cli/jobs.h"
#include "cli/log_follower.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);

std::string job_log_folder(const std::string& name) {
  return join_path(local::local_paths().job(name), "logs");
}

std::string run_log_folder(const std::string& name) {
  const Json record = launch::read_record(name);
  if (record.is_object()) return json_get<std::string>(record, "log_dir", "record of run " + name);
  // Not known: the request's sentence says which runs there are.
  const Json status = launch::request(name, {{"request", "status"}});
  return json_get<std::string>(status, "log_dir", "run " + name);
}

// Lines are complete, and their output in one piece.
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

bool show_logs(const LogOptions& options) {
  const auto store = local::open_store();
  const bool is_job = find_job_or_run(store.get(), options.name).job.has_value();
  const auto may_grow = [&] {
    if (!is_job) return launch::is_live(options.name);
    const auto job = store->find(options.name);
    return job && !job->ended();
  };
  LogFollower follower(is_job ? job_log_folder(options.name) : run_log_folder(options.name),
                       options.replica);
  const LogLine print_log = printer(options);
  follower.tail(options.tail, options.since, print_log);
  while (options.follow) {
    // Asked before reading: lines written up to the end are then read for sure.
    const bool more = may_grow();
    const bool any = follower.next(print_log, !more);
    if (!more) break;
    if (!any) std::this_thread::sleep_for(kLook);
  }
  follower.next(print_log, true);
  if (follower.replicas() == 0 && options.replica) {
    fail("{} has no log of replica {}", options.name, *options.replica);
  }
  return follower.replicas() > 0;
}

std::function<void(bool ended)> job_log_printer(const std::string& job) {
  const auto follower = std::make_shared<LogFollower>(job_log_folder(job), std::nullopt);
  return [follower, print_log = printer({.name = job})](bool ended) {
    follower->next(print_log, ended);
  };
}

}  // namespace adaptdl::cli
