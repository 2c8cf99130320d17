#include "core/cluster/local/job_requests.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/cluster/local/runner/job_folder.h"
#include "core/formats/json.h"

namespace adaptdl::local {

namespace {

// As Kubernetes generates names: no vowels, so no words; no letters that look alike.
std::string random_suffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (const uint8_t byte : random_bytes(kJobNameSuffix))
    suffix += kLetters[byte % kLetters.size()];
  return suffix;
}

constexpr const char* kByUser = "by its user";

std::string text(const Json& request, const char* key) {
  return json_get<std::string>(request, key, "request");
}

}  // namespace

Json JobRequests::carry_out(const std::string& kind, const Json& request) {
  if (kind == "submit") return submit(request);
  if (kind == "scale") return scale(request);
  if (kind == "delete") return remove(request);
  ActiveJob& job = find(request);
  if (kind == "suspend") {
    if (!job.spec.preemptible)
      fail("job {} is not preemptible; it can be cancelled", job.record.name);
    if (!job.record.suspended) {
      jobs_.change(job, "Suspended", kByUser, [&] {
        job.record.suspended = true;
        job.state.wanted = job.record.replicas = 0;
      });
    }
  } else if (kind == "resume") {
    if (!job.record.suspended) fail("job {} is not suspended", job.record.name);
    jobs_.change(job, "Resumed", kByUser, [&] { job.record.suspended = false; });
  } else if (kind == "cancel") {
    cancel(job);
  } else {
    fail("unknown request {}", kind);
  }
  Json answer = {{"name", job.record.name}, {"phase", phase_text(job)}};
  if (job.record.reason == kRunsElsewhere) answer["message"] = job.record.message;
  return answer;
}

Json JobRequests::submit(const Json& request) {
  const auto spec = json_get<Json>(request, "spec", "submit");
  ActiveJob job;
  job.spec = job_spec_from_json(spec, "submit");
  JobRecord& record = job.record;
  record.name = job.spec.name.empty() ? new_name(job.spec) : job.spec.name;
  record.spec = dump_json(spec);
  record.token = to_hex(random_bytes(16));
  record.submitted_s = wall_now_s();
  record.phase = phase_text(job);
  record.min_replicas = job.spec.min_replicas;
  job.state.slots_per_replica = slots_per_replica(machine_, job.spec);
  job.state.restarts = job.spec.kind == JobSpec::Kind::command;
  record.max_replicas = job.spec.max_replicas.value_or(most_replicas(job, machine_));
  note_shortage(job, machine_);

  // The folder first: every job in the store has one. The next start of the service removes a
  // folder without a job; it recognizes the folder by its job.json.
  const JobFolder folder{paths_.job(record.name)};
  const auto project = json_find<std::string>(request, "project", "submit");
  if (project && (parent_directory(*project) != paths_.jobs || !is_incoming(file_name(*project)))) {
    fail("{}: not a submission folder in {}", *project, paths_.jobs);
  }
  if (jobs_.store().find(record.name)) {
    fail("job {} already exists; delete it with `adaptdl delete {}` once it has ended", record.name,
         record.name);
  }
  if (path_exists(folder.path)) {
    fail("{}: already exists, but belongs to no known job; move it elsewhere", folder.path);
  }
  make_directories(folder.path, 0700);
  try {
    if (project && std::rename(project->c_str(), folder.project().c_str()) != 0) {
      fail_errno(errno, *project);
    }
    write_job_file(job, paths_, machine_, project.has_value());
    // The client has synced the project's content. Without a project, the folder has nothing yet
    // that JobDriver::adopt() cannot write again, and the answer need not wait for the disk twice.
    if (project) sync_job_folder(folder);
    const ActiveJob& added = jobs_.add(std::move(job));
    supervisor_.add(added.record.name, added.record.token);
    return {{"name", added.record.name}, {"message", added.record.message}};
  } catch (const Error&) {
    remove_tree(folder.path);
    throw;
  }
}

std::string JobRequests::new_name(const JobSpec& spec) {
  const std::string prefix =
      spec.name_prefix.empty() ? job_name_prefix(file_stem(spec.program)) : spec.name_prefix;
  std::string name;
  do {
    name = prefix + random_suffix();
  } while (jobs_.find(name) != nullptr || path_exists(paths_.job(name)));
  return name;
}

void JobRequests::cancel(ActiveJob& job) {
  if (job.state.cancelled && !job.unsaved) return;
  const auto act = [&] {
    job.record.cancelled = job.state.cancelled = true;
    job.state.wanted = job.record.replicas = 0;
  };
  try {
    jobs_.change(job, "Cancelled", kByUser, act);
  } catch (const Error& error) {
    // The job itself may be what fills the disk: it is stopped in any case.
    act();
    job.unsaved = true;
    jobs_.changed();
    fail(
        "job {} is being stopped, but its cancellation is not on disk yet: {}; the service tries "
        "again, and a restart before that would run the job again",
        job.record.name, error.what());
  }
}

Json JobRequests::scale(const Json& request) {
  ActiveJob& job = find(request);
  const int low = json_get<int>(request, "min", "scale");
  const int high = json_get<int>(request, "max", "scale");
  const int most = machine_.most_slots(job.spec) / job.state.slots_per_replica;
  if (low < 0 || high < std::max(1, low)) fail("invalid replica range {}:{}", low, high);
  if (most == 0) fail("job {}: {}", job.record.name, shortage(machine_, job.spec, low));
  if (std::max(1, low) > most) {
    fail("job {} can have at most {} replicas on this machine{}", job.record.name, most,
         machine_.has_kinds() ? ", all on slots of one kind" : "");
  }
  jobs_.change(job, "Scaled", fmt::format("replicas {}:{}", low, high), [&] {
    job.record.min_replicas = low;
    job.record.max_replicas = high;
    note_shortage(job, machine_);
  });
  return {{"name", job.record.name}, {"min", low}, {"max", high}};
}

Json JobRequests::remove(const Json& request) {
  const std::string name = text(request, "name");
  if (const ActiveJob* const job = jobs_.find(name)) {
    if (job->record.ended()) {
      fail("job {} has ended, but that is not on disk yet; try again once the disk can be written",
           name);
    }
    if (job->record.reason == kRunsElsewhere) {
      fail("job {} has not ended: {}", name, job->record.message);
    }
    fail("job {} has not ended; cancel it with `adaptdl cancel {}`", name, name);
  }
  if (!jobs_.store().find(name)) fail("job {} not found", name);
  // The folder first: if the service dies in between, its next start renames it back.
  const std::string folder = paths_.job(name), removed = paths_.outgoing();
  ::utimensat(AT_FDCWD, folder.c_str(), nullptr, 0);  // the caller has time to remove it
  const bool had_folder = std::rename(folder.c_str(), removed.c_str()) == 0;
  if (!had_folder && errno != ENOENT) fail_errno(errno, folder);
  try {
    // Else a power cut could leave the folder of a job that is not known any more.
    if (had_folder) sync_directory(paths_.jobs);
    jobs_.store().remove(name);
  } catch (const Error&) {
    if (had_folder) std::rename(removed.c_str(), folder.c_str());
    throw;
  }
  return {{"name", name}, {"folder", had_folder ? Json(removed) : Json()}};
}

ActiveJob& JobRequests::find(const Json& request) {
  const std::string name = text(request, "name");
  ActiveJob* const job = jobs_.find(name);
  if (job != nullptr && !job->record.ended()) return *job;
  // It may have ended while the disk cannot be written.
  const auto ended = job != nullptr ? job->record : jobs_.store().find(name);
  if (!ended) fail("job {} not found", name);
  fail("job {} has ended ({})", name, ended->phase);
}

}  // namespace adaptdl::local
