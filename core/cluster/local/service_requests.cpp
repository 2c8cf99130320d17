// The control socket's requests (client.h).

#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/hmac.h"
#include "core/base/json.h"
#include "core/cluster/local/client.h"
#include "core/cluster/local/service.h"

namespace adaptdl::local {

namespace {

// As Kubernetes makes names: no vowels, so no words; no letters that look alike.
std::string random_suffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (const uint8_t byte : random_bytes(kJobNameSuffix))
    suffix += kLetters[byte % kLetters.size()];
  return suffix;
}

std::string text(const nlohmann::json& request, const char* key) {
  return json_get<std::string>(request, key, "request");
}

}  // namespace

nlohmann::json Service::on_request(const nlohmann::json& request) {
  const int protocol = json_get_or<int>(request, "protocol", "request", kProtocol);
  const std::string kind = text(request, "request");
  if (kind == "hello") return hello();
  if (kind == "stop") {
    stop_ = true;
    return nlohmann::json::object();
  }
  if (protocol != kProtocol) {
    fail(
        "the service that runs is adaptdl {}, which this command does not understand. Stop it "
        "(`adaptdl serve --stop`; jobs go on) and start the new one (`adaptdl serve`).",
        options_.version);
  }
  const double now = monotonic_now_s();
  if (json_get_or<double>(request, "until", "request", now) < now) {
    fail("the service was held up, and has not done what was asked; try again");
  }
  if (kind == "submit") return submit(request);
  if (kind == "scale") return scale_job(request);
  if (kind == "delete") return remove(request);
  if (kind == "reload") {
    configure();
    return {{"policy", config_.policy}, {"options", config_.options}};
  }
  LocalJob& job = find(request);
  if (kind == "suspend") {
    if (!job.spec.preemptible)
      fail("job {} is not preemptible; it can be cancelled", job.record.name);
    if (!job.record.suspended) note(job, "Suspended", "by its user");
    job.record.suspended = true;
    job.state.wanted = job.record.replicas = 0;
  } else if (kind == "resume") {
    if (!job.record.suspended) fail("job {} is not suspended", job.record.name);
    job.record.suspended = false;
    note(job, "Resumed", "by its user");
  } else if (kind == "cancel") {
    if (!job.state.cancelled) note(job, "Cancelled", "by its user");
    job.record.cancelled = job.state.cancelled = true;
    job.state.wanted = job.record.replicas = 0;
  } else {
    fail("unknown request {}", kind);
  }
  save(job);
  happened();
  return {{"name", job.record.name}, {"phase", phase_text(job)}};
}

nlohmann::json Service::hello() const {
  return {{"version", options_.version},
          {"protocol", kProtocol},
          {"pid", getpid()},
          {"started", started_},
          {"policy", config_.policy},
          {"options", config_.options},
          {"slot_kind", machine_.slot_kind()},
          {"slots", slots_.count()},
          {"slots_free", slots_.free()},
          {"jobs", jobs_.size()},
          {"url", url_},
          {"problem", problem_}};
}

nlohmann::json Service::submit(const nlohmann::json& request) {
  LocalJob job;
  job.spec = job_spec_from_json(json_get<Json>(request, "spec", "submit"), "submit");
  JobRecord& record = job.record;
  record.name = job.spec.name;
  if (record.name.empty()) {
    const std::string& given = job.spec.name_prefix;
    const std::string prefix = given.empty() ? job_name_prefix(file_stem(job.spec.program)) : given;
    do {
      record.name = prefix + random_suffix();
    } while (jobs_.contains(record.name) || path_exists(options_.paths.job(record.name)));
  }
  record.spec = dump_json(to_json(job.spec));
  record.token = to_hex(random_bytes(16));
  record.submitted_s = wall_now_s();
  record.phase = phase_text(job);
  record.min_replicas = job.spec.min_replicas;
  job.state.slots_per_replica = slots_per_replica(machine_, job.spec);
  record.max_replicas = job.spec.max_replicas.value_or(most_replicas(job));
  note_shortage(job);

  // The folder first: a job in the store has one. A folder without a job is swept up at the start,
  // which knows it by its job.json.
  const std::string folder = options_.paths.job(record.name);
  const auto project = json_find<std::string>(request, "project", "submit");
  if (project &&
      (parent_directory(*project) != options_.paths.jobs || !is_incoming(file_name(*project)))) {
    fail("{}: not a folder of {} that a submission made", *project, options_.paths.jobs);
  }
  if (store_.find(record.name)) {
    fail("there is a job {} already; `adaptdl delete {}` removes it once it has ended", record.name,
         record.name);
  }
  if (path_exists(folder)) {
    fail("{}: is in the way, and belongs to no job that is known; move it elsewhere", folder);
  }
  make_directories(folder, 0700);
  try {
    write_runner_file(job);
    if (project && std::rename(project->c_str(), join_path(folder, "project").c_str()) != 0) {
      fail_errno(errno, *project);
    }
    write_runner_file(job);  // with its project, for `exec` before its start
    store_.add(record);
  } catch (const Error&) {
    remove_tree(folder);
    throw;
  }
  const std::string name = record.name;
  const std::string message = record.message;
  LocalJob& added = jobs_[name] = std::move(job);
  note(added, "Submitted", added.record.message);
  supervised_.add(name, added.record.token);
  happened();
  return {{"name", name}, {"message", message}};
}

nlohmann::json Service::scale_job(const nlohmann::json& request) {
  LocalJob& job = find(request);
  const int low = json_get<int>(request, "min", "scale");
  const int high = json_get<int>(request, "max", "scale");
  const int most = slots_.count() / job.state.slots_per_replica;
  if (low < 0 || high < std::max(1, low)) fail("{}:{} replicas cannot be", low, high);
  if (std::max(1, low) > most) {
    fail("job {} can have {} replicas at most on this machine", job.record.name, most);
  }
  job.record.min_replicas = low;
  job.record.max_replicas = high;
  note_shortage(job);
  note(job, "Scaled", fmt::format("replicas {}:{}", low, high));
  save(job);
  happened();
  return {{"name", job.record.name}, {"min", low}, {"max", high}};
}

nlohmann::json Service::remove(const nlohmann::json& request) {
  const std::string name = text(request, "name");
  if (jobs_.contains(name)) {
    fail("job {} has not ended; `adaptdl cancel {}` ends it", name, name);
  }
  if (!store_.find(name)) fail("there is no job {}", name);
  // The folder first: if this is cut off in between, the next start removes it.
  const std::string folder = options_.paths.job(name), removed = options_.paths.incoming();
  const bool had_folder = std::rename(folder.c_str(), removed.c_str()) == 0;
  if (!had_folder && errno != ENOENT) fail_errno(errno, folder);
  try {
    store_.remove(name);
  } catch (const Error&) {
    if (had_folder) std::rename(removed.c_str(), folder.c_str());
    throw;
  }
  return {{"name", name}, {"folder", had_folder ? Json(removed) : Json()}};
}

LocalJob& Service::find(const nlohmann::json& request) {
  const std::string name = text(request, "name");
  const auto found = jobs_.find(name);
  if (found != jobs_.end()) return found->second;
  const auto ended = store_.find(name);
  if (!ended) fail("there is no job {}", name);
  fail("job {} has ended ({})", name, ended->phase);
}

}  // namespace adaptdl::local
