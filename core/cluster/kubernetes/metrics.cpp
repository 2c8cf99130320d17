#include "core/cluster/kubernetes/metrics.h"

#include <cmath>
#include <map>

#include "core/job/hints.h"
#include "core/job/phase.h"

namespace adaptdl::kubernetes {

namespace {

constexpr int kPredicted[] = {1, 2, 4, 8, 16};  // replicas

class Text {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   type);
    name_ = name;
  }
  void sample(const std::string& labels, double value, std::string_view suffix = "") {
    fmt::format_to(std::back_inserter(text_), "{}{}{}{}{} {}\n", name_, suffix,
                   labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}",
                   std::isnan(value) ? "NaN" : fmt::format("{}", value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_, name_;
};

struct Live {
  std::string labels;
  const JobStatus* status = nullptr;
  JobHints hints;
  SchedulingHints sent;
};

std::vector<Live> live_jobs(const std::vector<KnownJob>& jobs) {
  std::vector<Live> result;
  for (const KnownJob& known : jobs) {
    if (known.job.status.ended()) continue;
    Live live;
    live.labels = fmt::format("namespace=\"{}\",job=\"{}\"", escaped_label(known.job.job_namespace),
                              escaped_label(known.job.name));
    live.status = &known.job.status;
    try {
      std::vector<std::string> ignored;
      if (!known.job.status.train.is_null()) {
        live.sent = hints_from_json(known.job.status.train, known.job.id(), ignored);
        live.hints = job_hints(live.sent);
      }
    } catch (const Error&) {  // invalid hints have no figures
      live.sent = {};
      live.hints = {};
    }
    result.push_back(std::move(live));
  }
  return result;
}

int nodes_of(const JobStatus& status) {
  std::map<std::string, int> nodes;
  for (const std::string& node : status.allocation) ++nodes[node];
  return static_cast<int>(nodes.size());
}

void add_goodput(Text& text, const std::vector<Live>& jobs) {
  const auto model = [](const Live& job) {
    return GoodputModel(*job.hints.perf, job.hints.grad.value_or(GradParams{}),
                        job.hints.batch->initial);
  };
  text.family("adaptdl_job_goodput", "gauge",
              "Predicted useful samples per second with the present allocation.");
  for (const Live& job : jobs) {
    const int replicas = static_cast<int>(job.status->allocation.size());
    if (!job.hints.perf || !job.hints.batch || replicas == 0) continue;
    const auto best = model(job).optimize(nodes_of(*job.status), replicas, *job.hints.batch);
    text.sample(job.labels, best.goodput);
  }
  text.family("adaptdl_job_goodput_predicted", "gauge",
              "Predicted useful samples per second with that many replicas on one node.");
  for (const Live& job : jobs) {
    if (!job.hints.perf || !job.hints.batch) continue;
    for (const int replicas : kPredicted) {
      const auto best = model(job).optimize(1, replicas, *job.hints.batch);
      text.sample(fmt::format("{},replicas=\"{}\"", job.labels, replicas), best.goodput);
    }
  }
  text.family("adaptdl_job_throughput_predicted", "gauge",
              "Predicted samples per second with that many replicas on one node.");
  for (const Live& job : jobs) {
    if (!job.hints.perf || !job.hints.batch) continue;
    for (const int replicas : kPredicted) {
      const auto best = model(job).optimize(1, replicas, *job.hints.batch);
      text.sample(
          fmt::format("{},replicas=\"{}\"", job.labels, replicas),
          model(job).throughput(1, replicas, static_cast<double>(best.atomic), best.accum_steps));
    }
  }
}

// A status may say anything, and each text would be a series of its own.
std::string known_phase(const std::string& said) {
  if (said.empty()) return std::string(phase_name(JobPhase::pending));
  for (const JobPhase phase : {JobPhase::pending, JobPhase::starting, JobPhase::running,
                               JobPhase::stopping, JobPhase::succeeded, JobPhase::failed}) {
    if (said == phase_name(phase)) return said;
  }
  return "Unknown";
}

void add_totals(Text& text, const std::vector<KnownJob>& jobs) {
  std::map<std::string, std::pair<int, double>> ended;  // by phase: how many, seconds
  std::map<std::string, int> phases;
  for (const KnownJob& known : jobs) {
    const JobStatus& status = known.job.status;
    ++phases[known_phase(status.phase)];
    if (!status.ended() || !status.completed_s) continue;
    ++ended[status.phase].first;
    ended[status.phase].second += *status.completed_s - known.job.created_s;
  }
  text.family("adaptdl_jobs", "gauge", "Jobs by phase.");
  for (const auto& [phase, count] : phases) {
    text.sample(fmt::format("phase=\"{}\"", phase), count);
  }
  text.family("adaptdl_sched_job_submission_count", "gauge", "Jobs that the cluster knows of.");
  text.sample("", static_cast<double>(jobs.size()), "_total");
  text.family("adaptdl_sched_job_completion_time", "summary",
              "Seconds from submission to the end, of the jobs that the cluster knows of.");
  for (const auto& [phase, sum] : ended) {
    const std::string label = fmt::format("status=\"{}\"", phase);
    text.sample(label, sum.first, "_count");
    text.sample(label, sum.second, "_sum");
  }
}

}  // namespace

std::string escaped_label(std::string_view value) {
  std::string result;
  for (const char c : value) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') result += '\\';
    result += c;
  }
  return result;
}

std::string metrics_text(const std::vector<KnownJob>& jobs, const ControllerFigures& figures,
                         bool leads, bool watches_up) {
  Text text;
  const std::vector<Live> live = live_jobs(jobs);
  add_totals(text, jobs);
  const auto each = [&](const char* name, const char* type, const char* help, const auto& value) {
    text.family(name, type, help);
    for (const Live& job : live) text.sample(job.labels, value(job));
  };
  each("adaptdl_job_replicas", "gauge", "Replicas in the job's allocation.",
       [](const Live& job) { return static_cast<double>(job.status->allocation.size()); });
  each("adaptdl_job_replicas_ready", "gauge", "Replicas that are ready.",
       [](const Live& job) { return job.status->ready; });
  each("adaptdl_job_rescales", "counter", "Changes of the allocation after the first.",
       [](const Live& job) { return job.status->rescales; });
  each("adaptdl_job_failures", "gauge", "Failures in a row.",
       [](const Live& job) { return job.status->failures; });
  text.family("adaptdl_job_waiting", "gauge", "1 if the job waits, by reason.");
  for (const Live& job : live) {
    if (job.status->phase == "Running" || job.status->reason.empty()) continue;
    text.sample(fmt::format("{},reason=\"{}\"", job.labels, escaped_label(job.status->reason)), 1);
  }
  text.family("adaptdl_job_batch_size", "gauge", "Samples in one step of all replicas.");
  for (const Live& job : live) {
    if (job.sent.global_batch) text.sample(job.labels, static_cast<double>(*job.sent.global_batch));
  }
  text.family("adaptdl_job_train_metric", "gauge",
              "What the job reports of its training: loss, validLoss, localBatch, stepSeconds, "
              "syncSeconds (the part of them that waits for synchronisation), and others.");
  for (const Live& job : live) {
    for (const auto& [name, value] : job.sent.train_metrics) {
      text.sample(fmt::format("{},metric=\"{}\"", job.labels, escaped_label(name)), value);
    }
  }
  text.family("adaptdl_job_remaining_progress", "gauge", "Scale-invariant iterations left.");
  for (const Live& job : live) {
    if (job.hints.remaining_progress) text.sample(job.labels, *job.hints.remaining_progress);
  }
  add_goodput(text, live);
  const auto one = [&](const char* name, const char* type, const char* help, double value) {
    text.family(name, type, help);
    text.sample("", value);
  };
  one("adaptdl_leader", "gauge", "1 if this operator is the leader.", leads);
  one("adaptdl_watches_up", "gauge", "1 if all watches of jobs, pods and nodes work.", watches_up);
  one("adaptdl_reconciles_total", "counter", "Jobs reconciled.",
      static_cast<double>(figures.reconciled));
  one("adaptdl_conflicts_total", "counter", "Writes refused because the object had changed.",
      static_cast<double>(figures.conflicts));
  one("adaptdl_errors_total", "counter", "Requests that failed.",
      static_cast<double>(figures.errors));
  text.family("rest_client_requests_total", "counter",
              "Requests to the API server, by method and status; <error>: no answer.");
  for (const auto& [what, count] : figures.requests) {
    text.sample(fmt::format("method=\"{}\",code=\"{}\"", what.first,
                            what.second == 0 ? "<error>" : std::to_string(what.second)),
                static_cast<double>(count));
  }
  one("adaptdl_pods_created_total", "counter", "Pods created.",
      static_cast<double>(figures.pods_made));
  one("adaptdl_allocator_rounds_total", "counter", "Rounds of the allocator.",
      static_cast<double>(figures.rounds));
  one("adaptdl_allocator_changes_total", "counter", "Allocations changed.",
      static_cast<double>(figures.changes));
  one("adaptdl_allocator_round_seconds", "gauge",
      "Seconds of the last round, from reading the cluster to its last write.", figures.round_s);
  one("adaptdl_allocator_policy_seconds", "gauge", "Seconds of the policy in the last round.",
      figures.policy_s);
  return text.take();
}

}  // namespace adaptdl::kubernetes
