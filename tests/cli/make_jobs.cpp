// make_jobs: writes jobs and events, one JSON record a line on standard input, into the local
// cluster's state, as its service would:
//   {"name": ..., "phase": ..., "age_s": 90, ...}   a job, times given as seconds ago
//   {"event": "Started", "job": ..., "message": ..., "age_s": 60}
//   {"many": 10000}                                  that many jobs that have succeeded

#include <iostream>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/store.h"
#include "core/formats/json.h"
#include "core/job/job_spec.h"

using namespace adaptdl;
using namespace adaptdl::local;

namespace {

const double kNow = wall_now_s();

std::string spec(const Json& line, const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.program = json_get_or<std::string>(line, "program", name, "/bin/true");
  if (line.contains("environment")) {
    spec.environment["PATH"] = json_get<std::string>(line, "environment", name);
  }
  spec.tensorboard = json_get_or<std::string>(line, "tensorboard", name, "");
  return dump_json(to_json(spec));
}

std::optional<double> ago(const Json& line, const char* key) {
  const auto seconds = json_find<double>(line, key, "job");
  return seconds ? std::optional(kNow - *seconds) : std::nullopt;
}

void add_job(JobStore& store, const Json& line) {
  JobRecord job;
  job.name = json_get<std::string>(line, "name", "job");
  job.spec = spec(line, job.name);
  job.phase = json_get<std::string>(line, "phase", job.name);
  job.reason = json_get_or<std::string>(line, "reason", job.name, "");
  job.message = json_get_or<std::string>(line, "message", job.name, "");
  job.why = json_get_or<std::string>(line, "why", job.name, "");
  job.submitted_s = kNow - json_get_or<double>(line, "age_s", job.name, 0);
  job.started_s = ago(line, "started_ago_s");
  job.ended_s = ago(line, "ended_ago_s");
  job.replicas = json_get_or<int>(line, "replicas", job.name, 0);
  job.slots = json_get_or<std::vector<int>>(line, "slots", job.name, {});
  job.restarts = json_get_or<int>(line, "restarts", job.name, 0);
  job.max_replicas = json_get_or<int>(line, "max_replicas", job.name, 1);
  const Json hints = json_get_or<Json>(line, "hints", job.name, Json());
  if (!hints.is_null()) job.hints = dump_json(hints);
  job.exit_code = json_find<int64_t>(line, "exit_code", job.name);
  store.add(job);
  make_directories(local_paths().job(job.name), 0700);
}

void add_many(JobStore& store, int count) {
  for (int i = 0; i < count; ++i) {
    JobRecord job;
    job.name = fmt::format("job-{:05}", i);
    job.spec = spec({{"environment", std::string(200, 'x')}}, job.name);
    job.why =
        "it keeps 2 replicas on 1 node, with 2.69 times the goodput of its slowest configuration";
    job.phase = "Succeeded";
    job.submitted_s = kNow - count + i;
    job.started_s = job.ended_s = job.submitted_s + 1;
    job.restarts = 1;
    store.add(job);
  }
}

}  // namespace

int main() {
  try {
    make_directories(local_paths().folder, 0700);
    JobStore store(local_paths().database, Database::Mode::write);
    for (std::string text; std::getline(std::cin, text);) {
      const Json line = parse_json(text, "standard input");
      if (line.contains("many")) {
        add_many(store, line["many"].get<int>());
      } else if (line.contains("event")) {
        store.add_event({.job = line["job"].get<std::string>(),
                         .time_s = kNow - json_get_or<double>(line, "age_s", "event", 0),
                         .kind = line["event"].get<std::string>(),
                         .message = line["message"].get<std::string>(),
                         .warning = json_get_or<bool>(line, "warning", "event", false)});
      } else {
        add_job(store, line);
      }
    }
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
