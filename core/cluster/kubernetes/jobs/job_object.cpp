#include "core/cluster/kubernetes/jobs/job_object.h"

#include <algorithm>
#include <cmath>

#include "core/base/clock.h"
#include "core/cluster/kubernetes/trim.h"
#include "core/formats/json_fields.h"
#include "core/job/replica_range.h"
#include "core/kube/answer.h"

namespace adaptdl::kubernetes {

namespace {

// Of the numbers in a status, far beyond what we write: one can still be added.
constexpr int kMostCounted = 1'000'000'000;
constexpr int64_t kMostGroups = int64_t{1} << 53;

// Nothing if the value has another type.
template <typename T>
std::optional<T> lenient(const Json& object, const char* key) {
  try {
    return json_find<T>(object, key, "status");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Nothing if the value is none that we write.
template <typename T>
std::optional<T> count_at(const Json& object, const char* key, T most) {
  const auto count = lenient<T>(object, key);
  return count && *count >= 0 && *count <= most ? count : std::nullopt;
}

std::optional<double> time_at(const Json& object, const char* key) {
  return parse_rfc3339_s(text_at(object, key));
}

JobStatus read_status(const Json& json) {
  JobStatus status;
  status.phase = text_at(json, "phase");
  status.reason = text_at(json, "reason");
  status.message = text_at(json, "message");
  status.allocation =
      lenient<std::vector<std::string>>(json, "allocation").value_or(std::vector<std::string>{});
  status.why = text_at(json, "why");
  status.group = count_at(json, "group", kMostGroups);
  status.replicas = count_at(json, "replicas", kMostCounted).value_or(0);
  status.ready = count_at(json, "readyReplicas", kMostCounted).value_or(0);
  status.rescales = count_at(json, "rescales", kMostCounted).value_or(0);
  status.failures = count_at(json, "failures", kMostCounted).value_or(0);
  status.restartable = lenient<bool>(json, "restartable").value_or(false);
  status.load_pickles = lenient<bool>(json, "loadPickles").value_or(false);
  status.started_s = time_at(json, "startTime");
  status.completed_s = time_at(json, "completionTimestamp");
  status.retry_s = time_at(json, "retryTime");
  status.retry_delay_s = lenient<double>(json, "retryDelay");
  status.group_started_s = time_at(json, "groupStartTime");
  status.held_since_s = time_at(json, "heldSince");
  status.launchers = lenient<std::vector<int>>(json, "launchers").value_or(std::vector<int>{});
  if (std::ranges::any_of(status.launchers,
                          [](int rank) { return rank < 0 || rank > kMostCounted; }))
    status.launchers.clear();
  status.launcher_lost_s = time_at(json, "launcherLost");
  const Json& leads = object_at(json, "leads");
  const auto group = count_at(leads, "group", kMostGroups);
  const auto rank = count_at(leads, "rank", kMostCounted);
  if (group && rank) status.leads = GroupLeader{*group, *rank};
  const double service = lenient<double>(json, "attainedService").value_or(0);
  status.attained_service = std::isfinite(service) && service >= 0 ? service : 0;
  const Json& train = object_at(json, "train");
  if (!train.empty()) status.train = train;
  for (const Json& entry : lenient<Json>(json, "conditions").value_or(Json::array())) {
    if (!entry.is_object()) continue;
    status.conditions.push_back({text_at(entry, "type"), text_at(entry, "status") == "True",
                                 text_at(entry, "reason"), text_at(entry, "message"),
                                 text_at(entry, "lastTransitionTime")});
  }
  return status;
}

Json time_or_null(const std::optional<double>& time) {
  return time ? Json(rfc3339(*time)) : Json();
}

}  // namespace

Json to_json(const GroupLeader& leader) {
  return {{"group", leader.group}, {"rank", leader.rank}};
}

namespace {

// Every field, null where it is absent: null deletes in a merge patch.
Json to_json(const JobStatus& status) {
  const auto text_or_null = [](const std::string& value) {
    return value.empty() ? Json() : Json(value);
  };
  Json conditions = Json::array();
  for (const JobCondition& condition : status.conditions) {
    conditions.push_back({{"type", condition.type},
                          {"status", condition.is ? "True" : "False"},
                          {"reason", condition.reason},
                          {"message", condition.message},
                          {"lastTransitionTime", condition.since}});
  }
  return {{"phase", text_or_null(status.phase)},
          {"reason", text_or_null(status.reason)},
          {"message", text_or_null(status.message)},
          {"allocation", status.allocation},
          {"why", text_or_null(status.why)},
          {"group", status.group ? Json(*status.group) : Json()},
          {"replicas", status.replicas},
          {"readyReplicas", status.ready},
          {"rescales", status.rescales},
          {"failures", status.failures},
          {"restartable", status.restartable ? Json(true) : Json()},
          {"loadPickles", status.load_pickles ? Json(true) : Json()},
          {"startTime", time_or_null(status.started_s)},
          {"completionTimestamp", time_or_null(status.completed_s)},
          {"retryTime", time_or_null(status.retry_s)},
          {"retryDelay", status.retry_delay_s ? Json(*status.retry_delay_s) : Json()},
          {"groupStartTime", time_or_null(status.group_started_s)},
          {"heldSince", time_or_null(status.held_since_s)},
          {"attainedService", status.attained_service},
          {"train", status.train},
          {"launchers", status.launchers.empty() ? Json() : Json(status.launchers)},
          {"launcherLost", time_or_null(status.launcher_lost_s)},
          {"leads", status.leads ? to_json(*status.leads) : Json()},
          {"conditions", std::move(conditions)}};
}

void read_spec(const Json& spec, JobObject& job) {
  const auto integer = [&](const char* key, int least) {
    const auto value = json_find<int>(spec, key, "spec");
    if (value && (*value < least || *value > kMostReplicas)) {
      fail("spec.{}: {} must be from {} to {}", key, *value, least, kMostReplicas);
    }
    return value;
  };
  const int min = integer("minReplicas", 0).value_or(0);
  const auto max = integer("maxReplicas", 1);
  job.requested_replicas = integer("requestedReplicas", 1);
  job.accelerators = json_get_or(spec, "accelerators", "spec", Accelerators());
  if (const std::string problem = accelerators_problem(job.accelerators); !problem.empty()) {
    fail("spec.accelerators: {}", problem);
  }
  job.preemptible = json_get_or(spec, "preemptible", "spec", true);
  job.restartable = json_find<bool>(spec, "restartable", "spec");
  job.live = json_get_or(spec, "liveRescale", "spec", false);
  job.suspended = json_get_or(spec, "suspend", "spec", false);
  job.cancelled = json_get_or(spec, "cancel", "spec", false);
  job.backoff_limit = integer("backoffLimit", 0).value_or(job.backoff_limit);
  job.ttl_s = json_find<int>(spec, "ttlSecondsAfterFinished", "spec");
  job.start_deadline = json_get_or(spec, "startDeadlineSeconds", "spec", job.start_deadline);
  if (max && *max < min) fail("spec.maxReplicas: {} is less than minReplicas, {}", *max, min);
  job.min_replicas = min;
  job.max_replicas = max;
}

}  // namespace

JobObject read_job(const Json& object, std::string& problem) {
  const Json& metadata = object_at(object, "metadata");
  JobObject job;
  job.job_namespace = json_get<std::string>(metadata, "namespace", "metadata");
  job.name = json_get<std::string>(metadata, "name", "metadata");
  job.uid = json_get<std::string>(metadata, "uid", "metadata");
  job.resource_version = text_at(metadata, "resourceVersion");
  job.generation = lenient<int64_t>(metadata, "generation").value_or(0);
  job.created_s = time_at(metadata, "creationTimestamp").value_or(0);
  job.deleting = !text_at(metadata, "deletionTimestamp").empty();
  const Json& spec = object_at(object, "spec");
  job.pod_template = std::make_shared<const Json>(object_at(spec, "template"));
  job.abridged = is_abridged(object);
  problem.clear();
  try {
    if (kube::too_deep(object)) {
      fail("spec: nested too deeply; a job has at most {} levels", kube::kMostDepth);
    }
    std::string size = noted_size_problem(object);
    if (size.empty() && !job.abridged) size = size_problem(*job.pod_template);
    if (!size.empty()) throw Error(size);
    read_spec(spec, job);
  } catch (const Error& error) {
    problem = error.what();
  }
  job.status = read_status(object_at(object, "status"));
  return job;
}

const Json& first_container(const JobObject& job) {
  static const Json none;
  const Json& containers = list_at(object_at(*job.pod_template, "spec"), "containers");
  return containers.empty() ? none : containers.front();
}

bool has_named(const Json& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(), [&](const Json& entry) {
    return entry.is_object() && entry.value("name", Json()) == name;
  });
}

bool concerns_allocator(const JobObject& before, const JobObject& now) {
  const auto profiled = [](const JobStatus& status) {
    return status.train.is_object() ? lenient<int64_t>(status.train, "maxProfiledReplicas") : 0;
  };
  return before.generation != now.generation || before.deleting != now.deleting ||
         before.status.ended() != now.status.ended() ||
         now.status.allocation.size() < before.status.allocation.size() ||
         profiled(now.status).value_or(0) > profiled(before.status).value_or(0);
}

Json status_patch(const JobStatus& before, const JobStatus& after) {
  const Json old_fields = to_json(before);
  const Json new_fields = to_json(after);
  Json changes = Json::object();
  for (const auto& [key, value] : new_fields.items()) {
    if (old_fields[key] != value) changes[key] = value;
  }
  return changes.empty() ? Json() : changes;
}

void set_condition(JobStatus& status, std::string_view type, bool is, std::string_view reason,
                   const std::string& message, double now_s) {
  const auto same = [type](const JobCondition& condition) { return condition.type == type; };
  auto found = std::find_if(status.conditions.begin(), status.conditions.end(), same);
  if (found == status.conditions.end()) {
    status.conditions.push_back({std::string(type), !is, "", "", ""});
    found = status.conditions.end() - 1;
  }
  if (found->is != is) found->since = rfc3339(now_s);
  found->is = is;
  found->reason = reason;
  found->message = message;
}

}  // namespace adaptdl::kubernetes
