#include "core/launch/command/leftovers.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <thread>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/formats/json.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMaxProcFile = 4u << 20;

// A living process's group, or nothing. A zombie does not count as living.
std::optional<pid_t> group_of(const std::string& pid) {
  try {
    const std::string text = read_file("/proc/" + pid + "/stat", kMaxProcFile);
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 4 >= text.size()) return std::nullopt;
    const char state = text[name_end + 2];
    if (state == 'Z' || state == 'X') return std::nullopt;
    const size_t begin = text.find(' ', name_end + 4) + 1;  // after the parent
    return try_parse<pid_t>(std::string_view(text).substr(begin, text.find(' ', begin) - begin));
  } catch (const Error&) {  // it ended
    return std::nullopt;
  }
}

bool has_mark(const std::string& pid, const std::string& mark) {
  try {
    const std::string text = '\0' + read_file("/proc/" + pid + "/environ", kMaxProcFile);
    return text.find('\0' + mark + '\0') != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

struct Living {
  std::string pid;
  pid_t group;
};

std::vector<Living> all_living() {
  std::vector<Living> result;
  for (const std::string& pid : list_directory("/proc")) {
    if (pid.empty() || pid.front() < '0' || pid.front() > '9') continue;
    if (const auto group = group_of(pid)) result.push_back({pid, *group});
  }
  return result;
}

std::vector<Living> living_in(const std::vector<ReplicaRecord::Process>& leaders) {
  std::vector<Living> result = all_living();
  std::erase_if(result, [&](const Living& one) {
    return std::none_of(leaders.begin(), leaders.end(),
                        [&](const auto& leader) { return leader.pid == one.group; });
  });
  return result;
}

// The groups of the record that live.
std::vector<ReplicaRecord::Process> recorded(const ReplicaRecord& record, const std::string& mark) {
  std::vector<ReplicaRecord::Process> result;
  const std::vector<Living> living = living_in(record.processes);
  for (const auto& leader : record.processes) {
    if (leader.pid <= 1) continue;
    const auto started = process_start_time(leader.pid);
    const bool same = started && *started == leader.start_time;
    const bool marked =
        !started && std::any_of(living.begin(), living.end(), [&](const Living& one) {
          return one.group == leader.pid && has_mark(one.pid, mark);
        });
    const bool any = std::any_of(living.begin(), living.end(),
                                 [&](const Living& one) { return one.group == leader.pid; });
    if (any && (same || marked)) result.push_back(leader);
  }
  return result;
}

// The groups of a generation whose launcher died before it could record them.
std::vector<ReplicaRecord::Process> unrecorded(const ReplicaRecord& record,
                                               const std::string& mark) {
  const std::string generation = fmt::format("ADAPTDL_NUM_RESTARTS={}", record.generation);
  const std::string job = "ADAPTDL_JOB_ID=" + record.job;
  std::set<pid_t> groups;
  for (const Living& one : all_living()) {
    if (one.group > 1 && one.group != ::getpgrp() && has_mark(one.pid, mark) &&
        has_mark(one.pid, generation) && (record.job.empty() || has_mark(one.pid, job))) {
      groups.insert(one.group);
    }
  }
  std::vector<ReplicaRecord::Process> result;
  for (const pid_t group : groups) result.push_back({.pid = group});
  return result;
}

}  // namespace

bool group_lives(pid_t group) {
  return ::kill(-group, 0) == 0 && !living_in({{.pid = group}}).empty();
}

std::vector<pid_t> living_in_group(pid_t group) {
  std::vector<pid_t> result;
  for (const Living& one : living_in({{.pid = group}})) {
    if (const auto pid = try_parse<pid_t>(one.pid)) result.push_back(*pid);
  }
  return result;
}

std::optional<ReplicasFile> claim_replicas_file(std::string path) {
  make_directories(parent_directory(path), 0700);
  auto lock = try_lock(path + ".lock");
  if (!lock) return std::nullopt;
  return ReplicasFile{std::move(path), *std::move(lock)};
}

ReplicaRecord read_replica_record(const std::string& path) {
  ReplicaRecord record;
  try {
    if (!path_exists(path)) return record;
    const Json json = parse_json(read_file(path, kMaxProcFile), path);
    record.generation = json_get<int64_t>(json, "generation", path);
    record.boot_id = json_get<std::string>(json, "boot_id", path);
    record.job = json_get_or<std::string>(json, "job", path, "");
    record.restartable = json_get_or(json, "restartable", path, false);
    record.load_pickles = json_get_or(json, "load_pickles", path, false);
    for (const Json& entry : json_get<std::vector<Json>>(json, "replicas", path)) {
      record.processes.push_back(
          {json_get<pid_t>(entry, "pid", path), json_get<uint64_t>(entry, "start_time", path)});
    }
  } catch (const Error&) {
    record.processes.clear();
  }
  return record;
}

void write_replica_record(const std::string& path, const ReplicaRecord& record) {
  Json replicas = Json::array();
  for (const auto& [pid, start_time] : record.processes) {
    replicas.push_back({{"pid", pid}, {"start_time", start_time}});
  }
  const Json json = {{"format", 1},
                     {"generation", record.generation},
                     {"boot_id", record.boot_id},
                     {"job", record.job},
                     {"restartable", record.restartable},
                     {"load_pickles", record.load_pickles},
                     {"replicas", std::move(replicas)}};
  replace_file(path, dump_json(json) + "\n", 0600);
}

ReplicaRecord::Process this_boots_process(pid_t pid) {
  return {pid, process_start_time(pid).value_or(0)};
}

int kill_leftovers(const ReplicaRecord& record, const std::string& mark, double seconds) {
  if (record.generation < 0 || record.boot_id != boot_id()) return 0;
  const std::vector<ReplicaRecord::Process> left =
      record.processes.empty() ? unrecorded(record, mark) : recorded(record, mark);
  for (const auto& leader : left) ::kill(-leader.pid, SIGKILL);
  const TimePoint deadline =
      Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
  while (!left.empty() && !living_in(left).empty() && Monotonic::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return static_cast<int>(left.size());
}

}  // namespace adaptdl::launch
