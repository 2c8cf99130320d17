#include "core/cluster/local/runner/run_record.h"

#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/json.h"

namespace adaptdl::local {
namespace {

constexpr size_t kMaxRunRecord = 4u << 20;

}  // namespace

RunnerEnd runner_end(const JobFolder& folder, pid_t pid) {
  const std::string where = folder.run_record();
  try {
    if (!path_exists(where)) return {};
    const Json record = parse_json(read_file(where, kMaxRunRecord), where);
    if (json_get_or<int64_t>(record, "pid", where, 0) != pid) return {};
    return {.state = json_get_or<std::string>(record, "state", where, ""),
            .reason = json_get_or<std::string>(record, "reason", where, ""),
            .cause = json_get_or<std::string>(record, "cause", where, ""),
            .step = json_get_or<int64_t>(record, "step", where, 0),
            .exit_code = json_find<int>(record, "exit_code", where),
            .program_exit_code = json_find<int>(record, "program_exit_code", where)};
  } catch (const Error&) {  // removed meanwhile with its folder, or not ours
    return {};
  }
}

bool shown_restartable(const JobFolder& folder) {
  const std::string where = folder.run_record();
  try {
    return path_exists(where) && json_get_or(parse_json(read_file(where, kMaxRunRecord), where),
                                             "restartable", where, false);
  } catch (const Error&) {  // removed meanwhile with its folder, or not ours
    return false;
  }
}

void record_failure(const JobFolder& folder, const std::string& reason, int code) noexcept {
  try {
    const std::string path = folder.run_record();
    Json record = Json::object();
    if (path_exists(path)) record = parse_json(read_file(path, kMaxRunRecord), path);
    record.update({{"format", 1},
                   {"state", "failed"},
                   {"reason", reason},
                   {"cause", "CannotStart"},
                   {"exit_code", code},
                   {"pid", getpid()},
                   {"changed", rfc3339(std::chrono::system_clock::now())}});
    write_file_atomic(path, dump_json(record) + "\n", 0600);
  } catch (const std::exception&) {  // a full disk; the exit code shows the failure
  }
}

}  // namespace adaptdl::local
