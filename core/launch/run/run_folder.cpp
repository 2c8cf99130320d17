#include "core/launch/run/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/json.h"
#include "core/launch/io/run_report.h"

namespace adaptdl::launch {

namespace {

constexpr const char* kLock = "run.lock";
constexpr const char* kRecord = "run.json";
constexpr std::chrono::milliseconds kLockPause{20};
constexpr size_t kMaxRecord = 4u << 20, kMaxOwner = 1000;

// The files that a run creates in its folder (adaptdl-checkpoint(5)), except the lock: checkpoints,
// the record, and temporary files of killed writers of both.
bool is_ours(const std::string& name) {
  const bool checkpoint =
      name.size() == 17 && name.starts_with("step-") &&
      std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return checkpoint || name.starts_with(".partial-") || name == kRecord ||
         name.starts_with(fmt::format(".{}.tmp-", kRecord));
}

}  // namespace

std::string lock_owner() {
  return fmt::format("{} on {}", getpid(), host_name());
}

std::string lock_owner(const std::string& folder) {
  try {
    const std::string text = read_file(join_path(folder, kLock), kMaxOwner);
    return text.substr(0, text.find('\n'));
  } catch (const Error&) {
    return "";
  }
}

bool is_locked(const std::string& folder) {
  const Fd lock(::open(join_path(folder, kLock).c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

RunFolder::RunFolder(const std::string& name, std::string folder, std::string record_file,
                     Seconds patience)
    : folder_(std::move(folder)), record_file_(std::move(record_file)) {
  make_durable_directories(folder_, 0700);
  const std::string path = join_path(folder_, kLock);
  lock_ = open_file(path, O_RDWR | O_CREAT, 0600);
  const TimePoint begun = Monotonic::now();
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK && seconds_since(begun) < patience.count()) {
      std::this_thread::sleep_for(kLockPause);
      continue;
    }
    if (errno != EWOULDBLOCK) fail_errno(errno, path + ": cannot lock");
    throw FolderInUse(
        fmt::format("run {} is live (process {}). Change it with `adaptdl scale {} N`, end it with "
                    "`adaptdl cancel {}`, or give this one another --name",
                    name, lock_owner(folder_), name, name));
  }
  const std::string owner = lock_owner() + "\n";
  if (::ftruncate(lock_.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t n = ::pwrite(lock_.get(), owner.data(), owner.size(), 0);
  }

  const std::string record = join_path(folder_, kRecord);
  if (!path_exists(record)) return;
  previous_ = parse_json(read_file(record, kMaxRecord), record);
  if (json_get<int>(previous_, "format", record) > kRecordFormat) {
    fail(
        "{}: written by a newer adaptdl (format {}, this one supports {}); use that version, or "
        "--fresh "
        "with another --checkpoint-dir",
        record, previous_["format"].dump(), kRecordFormat);
  }
  const auto before = json_get<std::string>(previous_, "name", record);
  if (before != name) {
    fail("{}: this folder belongs to run {}; give run {} a folder of its own with --checkpoint-dir",
         folder_, before, name);
  }
}

bool RunFolder::may_go_on(const nlohmann::json& record) const {
  const char* const effective = "effective_settings";
  const nlohmann::json before = previous_.value(effective, nlohmann::json::object());
  const nlohmann::json now = record.value(effective, nlohmann::json::object());
  if (before.empty() || now.empty()) {  // not an archive: its settings are its own affair
    for (const char* key : {"settings", "arguments", "program_version"}) {
      if (previous_.value(key, nlohmann::json()) != record.value(key, nlohmann::json()))
        return true;
    }
    return false;
  }
  for (const char* limit : {"epochs", "max_steps", "max_time", "early_stopping.patience"}) {
    if (before.value(limit, "") != now.value(limit, "")) return true;
  }
  return false;
}

std::vector<std::string> RunFolder::changes(const nlohmann::json& record) const {
  std::vector<std::string> result;
  if (!previous_.is_object()) return result;
  const auto show = [](const nlohmann::json& value) {
    return value.empty() ? "none" : value.is_string() ? value.get<std::string>() : value.dump();
  };
  const auto compare = [&](const nlohmann::json& before, const nlohmann::json& now,
                           const std::string& key) {
    const nlohmann::json old = before.value(key, nlohmann::json());
    const nlohmann::json present = now.value(key, nlohmann::json());
    if (old == present) return;
    result.push_back(
        fmt::format("changed since the last run: {}: {} -> {}", key, show(old), show(present)));
  };
  compare(previous_, record, "program");
  compare(previous_, record, "arguments");
  // An archive's own settings count as much as --set; other programs have only --set.
  const char* const effective = "effective_settings";
  const nlohmann::json before = previous_.value(effective, nlohmann::json::object());
  const nlohmann::json now = record.value(effective, nlohmann::json::object());
  if (before.empty() || now.empty()) {
    compare(previous_, record, "settings");
    return result;
  }
  nlohmann::json all = before;
  all.update(now);
  for (const auto& item : all.items()) compare(before, now, item.key());
  return result;
}

void RunFolder::clear() {
  for (const std::string& name : list_directory(folder_)) {
    if (is_ours(name)) remove_tree(join_path(folder_, name));
  }
  sync_directory(folder_);  // a power cut must not bring back the steps of the earlier training
  previous_ = nullptr;
}

void RunFolder::write(const nlohmann::json& record) const {
  const std::string text = dump_json(record) + "\n";
  write_file_atomic(join_path(folder_, kRecord), text, 0600);
  make_directories(parent_directory(record_file_), 0700);
  write_file_atomic(record_file_, text, 0600);
}

}  // namespace adaptdl::launch
