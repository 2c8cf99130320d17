#include "core/client/kubernetes/view.h"

#include <algorithm>
#include <set>

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json_fields.h"

namespace adaptdl::client {
namespace {

using kubernetes::JobObject;
using kubernetes::PodFacts;

// AdaptDL has no phases for these.
std::string phase_of(const JobObject& job) {
  const std::string& phase = job.status.phase;
  if (phase == "Failed" && job.status.reason == kubernetes::reason::kCancelled) return "Cancelled";
  if (phase == "Pending" && job.status.reason == kubernetes::reason::kSuspended) return "Suspended";
  return phase.empty() ? "Pending" : phase;
}

// The reason, unless it only repeats the phase.
std::string trouble_of(const JobView& view) {
  const bool usual = view.reason == kubernetes::reason::kWaiting || view.reason == view.phase;
  return usual || view.phase == "Running" || view.phase == "Succeeded" ? "" : view.reason;
}

// What the job's newest hints say of its training, under the names of a runner's status.
Json training_status(const Json& train) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"epoch", "epoch"},
      {"loss", "loss"},
      {"progress", "progress"},
      {"progressTotal", "progress_total"},
      {"secondsLeft", "seconds_left"},
      {"samplesPerSecond", "samples_per_s"},
      {"goodput", "goodput"},
      {"gpuBusyPercent", "gpu_busy_percent"},
      {"gpuTemperatureCelsius", "gpu_temperature_c"},
      {"gpuPowerWatts", "gpu_power_w"},
      {"gpuMemoryUsedBytes", "gpu_memory_used_bytes"}};
  const Json& metrics = member(train, "trainMetrics");
  Json status = Json::object();
  for (const auto& [hint, name] : kNames) {
    const Json& value = member(metrics, hint);
    if (value.is_number()) status[name] = value;
  }
  const Json& step = member(metrics, "step");
  if (step.is_number() && step >= 0 && step < 1e15) status["step"] = step.get<int64_t>();
  return status;
}

std::string dash(std::string value) {
  return value.empty() ? "-" : std::move(value);
}

std::string pod_state(const Json& object, const PodFacts& pod) {
  if (pod.deleting) return "Terminating";
  const std::string phase = text_at(member(object, "status"), "phase");
  return phase == "Running" && !pod.ready ? "Running, not ready" : phase;
}

}  // namespace

JobView kubernetes_view(const Json& object) {
  std::string problem;
  const JobObject job = kubernetes::read_job(object, problem);
  JobView view;
  view.name = job.name;
  view.name_space = job.job_namespace;
  view.phase = phase_of(job);
  view.reason = job.status.reason;
  view.message = job.status.message;
  view.why = job.status.why;
  view.trouble = trouble_of(view);
  view.submitted_s = job.created_s;
  view.started_s = job.status.started_s;
  if (job.status.ended()) {
    view.ended_s = job.status.completed_s.value_or(job.status.started_s.value_or(job.created_s));
  }
  view.nodes = job.status.allocation;
  view.replicas = static_cast<int>(job.status.allocation.size());
  view.restarts = job.status.rescales;
  view.failures = job.status.failures;
  view.service_s = job.status.attained_service;
  view.min_replicas = job.min_replicas;
  view.max_replicas = job.max_replicas;
  view.suspended = job.suspended;
  view.cancelled = job.cancelled;
  if (!job.status.train.is_null()) view.hints = dump_json(job.status.train);
  view.program = text_at(kubernetes::first_container(job), "image");
  if (view.ended()) return view;
  view.status = view.replicas > 0 ? training_status(job.status.train) : Json::object();
  view.status.update({{"replicas", job.status.ready}, {"target", view.replicas}});
  return view;
}

JobDetails::Table conditions_table(const Json& object, double now_s) {
  std::string problem;
  JobDetails::Table table{"Conditions", {"TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"}, {}};
  for (const kubernetes::JobCondition& each :
       kubernetes::read_job(object, problem).status.conditions) {
    const auto since = parse_rfc3339_s(each.since);
    table.rows.push_back({each.type, each.is ? "True" : "False",
                          since ? short_duration(now_s - *since) : "-", dash(each.reason),
                          each.message});
  }
  return table;
}

JobDetails::Table pods_table(const std::vector<Json>& pods) {
  struct Row {
    PodFacts facts;
    const Json* object;
  };
  std::vector<Row> sorted;
  for (const Json& pod : pods) sorted.push_back({kubernetes::read_pod(pod), &pod});
  std::sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) {
    return std::tie(a.facts.group, a.facts.rank, a.facts.name) <
           std::tie(b.facts.group, b.facts.rank, b.facts.name);
  });
  JobDetails::Table table{"Pods", {"REPLICA", "GROUP", "STATUS", "NODE", "NAME", "WHY"}, {}};
  for (const auto& [pod, object] : sorted) {
    std::string why = pod.reason;
    if (!pod.message.empty()) why += (why.empty() ? "" : ": ") + pod.message;
    if (pod.exit_code != 0) why = fmt::format("exit code {} {}", pod.exit_code, why);
    table.rows.push_back({std::to_string(pod.rank), std::to_string(pod.group),
                          pod_state(*object, pod), dash(pod.node), pod.name, why});
  }
  return table;
}

std::string job_of_pod(const std::string& pod) {
  constexpr size_t kUid = 36;
  size_t end = pod.size();
  for (int numbers = 0; numbers < 2; ++numbers) {  // rank and group, from the end
    const size_t dash = pod.rfind('-', end == 0 ? 0 : end - 1);
    if (dash == std::string::npos || dash + 1 == end) return "";
    if (!std::all_of(pod.begin() + static_cast<std::ptrdiff_t>(dash) + 1,
                     pod.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char c) { return c >= '0' && c <= '9'; })) {
      return "";
    }
    end = dash;
  }
  if (end < kUid + 2 || pod[end - kUid - 1] != '-') return "";
  return pod.substr(0, end - kUid - 1);
}

std::optional<JobEvent> kubernetes_event(const Json& object) {
  const Json& about = member(object, "involvedObject");
  const std::string kind = text_at(about, "kind"), name = text_at(about, "name");
  JobEvent event;
  event.job = kind == kubernetes::kJobKind ? name : kind == "Pod" ? job_of_pod(name) : "";
  if (event.job.empty()) return std::nullopt;
  // Different writers fill in different fields.
  for (const std::string& time :
       {text_at(member(object, "series"), "lastObservedTime"), text_at(object, "lastTimestamp"),
        text_at(object, "eventTime"), text_at(member(object, "metadata"), "creationTimestamp")}) {
    if (const auto seconds = parse_rfc3339_s(time)) {
      event.time_s = *seconds;
      break;
    }
  }
  event.id = static_cast<int64_t>(event.time_s * 1e6);
  event.kind = text_at(object, "reason");
  event.message = text_at(object, "message");
  if (kind == "Pod") event.message = fmt::format("pod {}: {}", name, event.message);
  event.warning = text_at(object, "type") == "Warning";
  return event;
}

}  // namespace adaptdl::client
