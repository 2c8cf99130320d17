#include <algorithm>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/simulate_setup.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/policy/policy.h"
#include "core/sim/experiment.h"
#include "core/sim/plot.h"
#include "core/sim/profiles/profile_files.h"

namespace adaptdl::cli {
namespace {

volatile std::sig_atomic_t ended_early = 0;

// Ctrl-C ends the simulation after the present round; a second one ends the process.
void stop_at_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { ended_early = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

std::vector<std::string> application_names(const Profiles& profiles) {
  std::vector<std::string> names;
  for (const auto& [name, profile] : profiles) names.push_back(name);
  return names;
}

// A progress line, on a terminal only.
class ProgressBar {
 public:
  ProgressBar(std::string policy, bool shown) : policy_(std::move(policy)), shown_(shown) {}
  ~ProgressBar() {
    if (drawn_) draw("");
  }
  void update(const ExperimentProgress& progress) {
    if (!shown_ || seconds_since(last_) < 0.1) return;
    last_ = Monotonic::now();
    constexpr int kCells = 30;
    const int cells = progress.finished * kCells / std::max(1, progress.jobs);
    draw(fmt::format("{:<12} [{:<{}}] {}/{} jobs, {}", policy_,
                     std::string(static_cast<size_t>(cells), '='), kCells, progress.finished,
                     progress.jobs, format_duration(progress.time_s)));
    drawn_ = true;
  }

 private:
  static void draw(const std::string& text) {
    const std::string all = "\r\x1b[K" + text;
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, all.data(), all.size());
  }
  std::string policy_;
  bool shown_, drawn_ = false;
  TimePoint last_{};
};

std::string seconds_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.0f}", value);
}

std::string figure(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string to_text(const std::vector<ExperimentResult>& results) {
  std::vector<std::vector<std::string>> rows;
  for (const ExperimentResult& result : results) {
    const SimulationSummary& s = result.summary;
    rows.push_back({result.policy, fmt::format("{}/{}", s.completed, s.jobs),
                    seconds_text(s.avg_jct_s), seconds_text(s.p50_jct_s), seconds_text(s.p99_jct_s),
                    seconds_text(s.max_jct_s), seconds_text(s.makespan_s),
                    figure(s.gpu_hours, s.gpu_hours < 100 ? 1 : 0), figure(s.restarts_per_job, 1),
                    figure(s.worst_fairness, 2), figure(s.policy_mean_s * 1000, 2),
                    figure(s.policy_max_s * 1000, 1)});
  }
  return table({"POLICY", "JOBS", "AVG JCT s", "P50 s", "P99 s", "MAX s", "MAKESPAN s", "GPU HOURS",
                "RESTARTS/JOB", "WORST FAIRNESS", "CALL ms", "MAX ms"},
               rows);
}

// `several`: several policies were requested; after an interrupt there may be results of only one.
Json to_json(const std::vector<ExperimentResult>& results, bool several) {
  Json all = Json::array();
  for (const ExperimentResult& result : results) {
    Json jobs = Json::array();
    for (const JobResult& job : result.jobs) jobs.push_back(adaptdl::to_json(job));
    all.push_back({{"policy", result.policy},
                   {"summary", adaptdl::to_json(result.summary)},
                   {"jobs", std::move(jobs)},
                   {"interrupted", result.interrupted},
                   {"problems", result.problems}});
  }
  return several ? Json{{"policies", std::move(all)}} : all.at(0);
}

// JSON records, one a line, flushed in large pieces.
class RecordFile {
 public:
  explicit RecordFile(const std::string& path)
      : path_(path), fd_(open_file(path, O_WRONLY | O_CREAT | O_TRUNC)) {}
  void add(const std::string& policy, Json record) {
    record["policy"] = policy;
    text_ += dump_json(record) + "\n";
    if (text_.size() > 1 << 20) flush();
  }
  void flush() {
    write_all(fd_.get(), text_, path_);
    text_.clear();
  }

 private:
  std::string path_, text_;
  Fd fd_;
};

int run_simulate(const Arguments& arguments) {
  const std::vector<SimulatedPolicy> policies = simulated_policies_of(arguments);
  if (!arguments.given("profiles")) throw UsageError("--profiles DIR is needed: recorded jobs");
  if (!arguments.given("workload")) throw UsageError("--workload FILE is needed: jobs to submit");
  ExperimentOptions options = experiment_options(arguments);
  for (const SimulatedPolicy& policy : policies) check_nodes(policy.name, options.nodes);
  const auto profiles = read_profiles(arguments.text("profiles"));
  const auto workload = read_workload(arguments.text("workload"), application_names(profiles));
  if (arguments.given("plot")) check_writable(arguments.text("plot"));
  std::optional<RecordFile> timeline;
  if (arguments.given("timeline")) timeline.emplace(arguments.text("timeline"));

  stop_at_interrupt();
  const bool shown = is_fancy(STDERR_FILENO, arguments.flag("no-color")) && !arguments.quiet();
  std::vector<ExperimentResult> results;
  for (const auto& [name, policy_options] : policies) {
    if (ended_early && !results.empty()) break;
    options.policy_options = policy_options;
    ProgressBar bar(name, shown);
    ExperimentHooks hooks;
    hooks.go_on = [&](const ExperimentProgress& progress) {
      bar.update(progress);
      return !ended_early;
    };
    const std::string& policy = name;
    if (timeline) hooks.on_record = [&](const Json& record) { timeline->add(policy, record); };
    results.push_back(run_experiment(name, workload, profiles, options, hooks));
  }
  for (const ExperimentResult& result : results) {
    for (const std::string& problem : result.problems) {
      talk(fmt::format("adaptdl: {}: {}", result.policy, problem));
    }
    const int left = result.summary.jobs - result.summary.completed;
    if (left > 0 && !result.interrupted) {
      talk(fmt::format("adaptdl: {}: {} jobs never finished; do they fit any node?", result.policy,
                       left));
    }
  }
  if (arguments.json()) {
    print_json(to_json(results, policies.size() > 1));
  } else {
    print(to_text(results));
  }
  // After the results: a full disk must not lose them.
  if (timeline) timeline->flush();
  if (arguments.given("plot")) {
    std::vector<PlotRun> runs;
    for (ExperimentResult& result : results) {
      int64_t gpus = 0;
      for (const ClusterNode& node : options.nodes) gpus += node.free_for_jobs.at("gpu");
      runs.push_back({result.policy, result.spans, result.jobs, static_cast<int>(gpus)});
    }
    write_user_file(arguments.text("plot"), plot_svg(runs));
  }
  if (!ended_early) return 0;
  talk("adaptdl: interrupted; the figures cover the time until then");
  return static_cast<int>(ExitCode::interrupted);
}

}  // namespace

Command simulate_command() {
  static const std::vector<std::string> known_policies = simulated_policies();
  return {
      .name = "simulate",
      .summary = "Simulate a workload of recorded jobs under scheduling policies",
      .text = embedded("simulate.md"),
      .options =
          {
              {.name = "profiles",
               .kind = Kind::directory,
               .value = "DIR",
               .doc = "Folder of profiles: a folder or a YAML file for each application."},
              {.name = "workload",
               .kind = Kind::file,
               .value = "FILE",
               .doc = "Jobs and their submission times, CSV or YAML."},
              {.name = "nodes",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "16",
               .doc = "Number of nodes.",
               .min = 1,
               .max = 100'000},
              {.name = "gpus-per-node",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "4",
               .doc = "GPUs on each node.",
               .min = 1,
               .max = 1024},
              {.name = "cluster",
               .kind = Kind::file,
               .value = "FILE",
               .doc = "YAML file of a cluster, which may have different nodes "
                      "(adaptdl-profile(5)); replaces --nodes and --gpus-per-node."},
              {.name = "policy",
               .kind = Kind::suggested,
               .value = "POLICY,...",
               .fallback = default_policy(),
               .doc = "Scheduling policies to compare (adaptdl-policy(5)).",
               .choices = {known_policies.begin(), known_policies.end()}},
              {.name = "policy-option",
               .kind = Kind::text,
               .value = "[POLICY.]NAME=VALUE",
               .doc = "Set an option of all policies that have it, such as fairness=-1, or of one, "
                      "such as pollux.fairness=-1.",
               .repeat = true},
              {.name = "interval",
               .kind = Kind::text,
               .value = "SECONDS",
               .fallback = "60",
               .doc = "Time between two scheduling rounds."},
              {.name = "event-gap",
               .kind = Kind::text,
               .value = "SECONDS",
               .doc = "Also schedule a round when a job arrives, ends, or is first measured with a "
                      "number of replicas; at least this long after the last round."},
              {.name = "rescale-cost",
               .kind = Kind::text,
               .value = "SECONDS|measured",
               .fallback = "30",
               .doc = "Time that a change of its allocation costs a job; measured: as in its "
                      "profile."},
              {.name = "lengths",
               .kind = Kind::choice,
               .value = "known|hidden",
               .fallback = "hidden",
               .doc = "Whether the policy knows how much work a job has left.",
               .choices = {"known", "hidden"}},
              {.name = "rules",
               .kind = Kind::choice,
               .value = "adaptdl|sia",
               .fallback = "adaptdl",
               .doc = "sia: as the simulator published with Sia, where a move to nodes of the same "
                      "kind costs nothing, a job finishes a change before the next one, and the "
                      "speed of one replica on every kind of GPU is known.",
               .choices = {"adaptdl", "sia"}},
              {.name = "interference",
               .kind = Kind::text,
               .value = "SHARE",
               .fallback = "0",
               .doc = "Fraction of speed that distributed jobs lose when they share a node, 0 to "
                      "0.99."},
              {.name = "seed",
               .kind = Kind::integer,
               .value = "N",
               .fallback = "0",
               .doc = "Seed of the policy's random choices.",
               .min = 0},
              {.name = "timeline",
               .kind = Kind::file,
               .value = "FILE",
               .doc = "Write allocations, batch changes and reasons as JSON lines."},
              {.name = "plot",
               .kind = Kind::file,
               .value = "FILE.svg",
               .doc = "Draw each job's GPUs over time and the completion times under each policy."},
              format_option(),
          },
      .examples = {{"adaptdl simulate --profiles profiles --workload workload.csv",
                    "16 nodes of 4 GPUs with the default policy."},
                   {"adaptdl simulate --profiles profiles --workload jobs.csv "
                    "--policy proportional,fixed",
                    "Compare two policies."}},
      .run = run_simulate};
}

}  // namespace adaptdl::cli
