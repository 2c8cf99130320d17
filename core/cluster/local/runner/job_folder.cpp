#include "core/cluster/local/runner/job_folder.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::local {

std::string JobFolder::job_file() const {
  return join_path(path, "job.json");
}

std::string JobFolder::project() const {
  return join_path(path, "project");
}

std::string JobFolder::runner_file() const {
  return join_path(path, "runner.json");
}

std::string JobFolder::lock_file() const {
  return join_path(path, "run.lock");
}

std::string JobFolder::control_socket() const {
  return join_path(path, "control.sock");
}

std::string JobFolder::run_record() const {
  return join_path(path, "run.json");
}

std::string JobFolder::events_file() const {
  return join_path(path, "events.jsonl");
}

std::string JobFolder::logs() const {
  return join_path(path, "logs");
}

std::string JobFolder::runner_log() const {
  return join_path(path, "logs/runner.log");
}

std::string JobFolder::runner_errors() const {
  return join_path(path, "runner.log");
}

std::string JobFolder::checkpoints() const {
  return join_path(path, "checkpoints");
}

std::string JobFolder::output() const {
  return join_path(path, "output");
}

std::string JobFolder::share() const {
  return join_path(path, "share");
}

std::string JobFolder::replicas_file() const {
  return join_path(path, "replicas.json");
}

std::optional<Fd> lock_job_folder(const JobFolder& folder) {
  return try_lock(folder.lock_file());
}

bool job_folder_locked(const JobFolder& folder) {
  const Fd lock(::open(folder.lock_file().c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

void sync_job_folder(const JobFolder& folder) {
  // The file first: its sync usually takes the names to the disk with it.
  sync_and_close(open_file(folder.job_file(), O_RDONLY), folder.job_file());
  sync_directory(folder.path);
  sync_directory(parent_directory(folder.path));
}

bool had_runner(const JobFolder& folder) {
  return path_exists(folder.lock_file());
}

}  // namespace adaptdl::local
