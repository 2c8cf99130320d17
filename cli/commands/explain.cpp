#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/show/jobs.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/client/cluster_choice.h"
#include "core/client/policy_choice.h"
#include "core/goodput/goodput.h"
#include "core/job/hints.h"
#include "core/policy/snapshot.h"

namespace adaptdl::cli {
namespace {

constexpr int kMostRows = 64;
constexpr double kGrowth = 2;  // of policies without such an option: replica_limit()'s default

struct Alternative {
  int replicas = 0;
  BatchChoice choice;
  int64_t batch = 0;   // samples
  double speedup = 0;  // over one replica
  std::optional<double> seconds_left;
  std::string note;
};

// The policy's `growth`: the largest multiple of the replicas measured so far that it gives a job.
// None if it gives what was asked for. For another cluster the default policy's, as not every user
// may read the operator's options.
std::optional<double> growth(const Arguments& arguments) {
  PolicyChoice policy{.name = std::string(default_policy())};
  try {
    policy = present_policy(chosen_cluster(arguments), arguments.verbose());
  } catch (const Error&) {
    if (chosen_cluster(arguments).local()) throw;
  }
  const PolicyInfo& info = info_of(policy);
  if (!info.adapts) return std::nullopt;
  for (const PolicyOption& option : info.options) {
    if (option.name == "growth") return value_of(option, policy);
  }
  return kGrowth;
}

// Goodput with 1, 2, ... replicas, each with its best batch, on one machine.
std::vector<Alternative> alternatives(const JobView& job, const JobHints& hints,
                                      std::optional<double> growth) {
  std::vector<Alternative> result;
  if (!hints.perf || !hints.grad || !hints.batch) return result;
  JobSnapshot snapshot;
  snapshot.max_replicas = std::max(1, job.max_replicas.value_or(kMostRows));
  snapshot.hints = hints;
  const int fed =
      static_cast<int>(std::min<int64_t>(kMostRows, hints.batch->max / hints.batch->atomic_min));
  const GoodputModel model(*hints.perf, *hints.grad, hints.batch->initial);
  for (int n = 1; n <= std::min(snapshot.max_replicas, kMostRows); ++n) {
    Alternative row;
    row.replicas = n;
    row.choice = model.optimize(1, n, *hints.batch);
    row.batch = n * row.choice.atomic * (row.choice.accum_steps + 1);
    row.speedup = result.empty() ? 1 : row.choice.goodput / result.front().choice.goodput;
    if (hints.remaining_progress && row.choice.goodput > 0) {
      row.seconds_left = *hints.remaining_progress * static_cast<double>(hints.batch->initial) /
                         row.choice.goodput;
    }
    if (n == job.replicas) {
      row.note = "now";
    } else if (n < job.min_replicas) {
      row.note = "below the job's minimum";
    } else if (growth && n > fed) {
      row.note = "more than batch.max / batch.atomic_min allows";
    } else if (growth && n > replica_limit(snapshot, *growth)) {
      row.note =
          fmt::format("not yet: it has been measured with {} at most", hints.max_profiled_replicas);
    }
    result.push_back(std::move(row));
  }
  return result;
}

// What it has measured on one kind of accelerator.
struct OnKind {
  std::string kind;
  double goodput = 0;  // of one replica
  int64_t atomic_max = 0;
  bool now = false;
};

std::vector<OnKind> on_kinds(const SchedulingHints& told, const JobHints& hints) {
  std::vector<OnKind> result;
  if (!hints.grad || !hints.batch) return result;
  // Nodes without a label have the name "", and a job on them may still name its accelerator: the
  // same measurement twice.
  const bool named = !told.accelerator.empty() && hints.kinds.contains(told.accelerator);
  for (const auto& [kind, known] : hints.kinds) {
    if (!known.perf || (kind.empty() && named)) continue;
    const BatchBounds bounds = bounds_on(*hints.batch, known);
    const GoodputModel model(*known.perf, *hints.grad, bounds.initial);
    result.push_back({kind.empty() ? "(no label)" : kind, model.optimize(1, 1, bounds).goodput,
                      bounds.atomic_max, kind == told.accelerator});
  }
  return result;
}

Json to_json(const OnKind& row) {
  return {{"kind", row.kind},
          {"goodput", row.goodput},
          {"atomic_max", row.atomic_max > 0 ? Json(row.atomic_max) : Json()},
          {"now", row.now}};
}

std::string to_text(const std::vector<OnKind>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const OnKind& row : rows) {
    cells.push_back({row.kind, fmt::format("{:.4g}/s", row.goodput),
                     row.atomic_max > 0 ? std::to_string(row.atomic_max) : "-",
                     row.now ? "now" : ""});
  }
  return table({"KIND", "GOODPUT", "LARGEST PASS", ""}, cells);
}

Json to_json(const Alternative& row) {
  return {{"replicas", row.replicas},
          {"goodput", row.choice.goodput},
          {"speedup", row.speedup},
          {"batch", row.batch},
          {"atomic", row.choice.atomic},
          {"accumulation", row.choice.accum_steps},
          {"seconds_left", row.seconds_left ? Json(*row.seconds_left) : Json()},
          {"note", row.note.empty() ? Json() : Json(row.note)}};
}

std::string to_text(const std::vector<Alternative>& rows) {
  const bool knows_end = rows.front().seconds_left.has_value();
  std::vector<std::string> head = {"REPLICAS", "GOODPUT", "SPEEDUP", "BATCH"};
  if (knows_end) head.push_back("LEFT");
  head.push_back("");
  std::vector<std::vector<std::string>> cells;
  for (const Alternative& row : rows) {
    cells.push_back({std::to_string(row.replicas), fmt::format("{:.4g}/s", row.choice.goodput),
                     fmt::format("{:.2f}", row.speedup), std::to_string(row.batch)});
    if (knows_end) cells.back().push_back(short_duration(row.seconds_left.value_or(0)));
    cells.back().push_back(row.note);
  }
  return table(head, cells);
}

std::string why(const JobView& job) {
  if (job.ended()) return "it has ended";
  if (job.suspended) return "it is suspended; `adaptdl resume " + job.name + "` continues it";
  if (!job.why.empty()) return job.why;
  if (!job.message.empty()) return job.message;
  return "the scheduler has not decided yet";
}

int run_explain(const Arguments& arguments) {
  const JobView job = open_cluster(arguments).query->find(*arguments.positional("JOB"));
  std::vector<Alternative> rows;
  std::vector<OnKind> kinds;
  std::string accelerator, problem = "it has not reported its speed yet";
  if (!job.hints.empty()) {
    std::vector<std::string> ignored;
    try {
      const SchedulingHints told = parse_hints(job.hints, "its hints", ignored);
      const JobHints hints = job_hints(told);
      accelerator = told.accelerator;
      rows = alternatives(job, hints, growth(arguments));
      kinds = on_kinds(told, hints);
      if (hints.perf && !hints.grad)
        problem = "it has reported its speed, but no gradient statistics";
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (arguments.json()) {
    Json record = {{"name", job.name},
                   {"replicas", job.replicas},
                   {"why", why(job)},
                   {"accelerator", accelerator.empty() ? Json() : Json(accelerator)},
                   {"alternatives", Json::array()},
                   {"kinds", Json::array()}};
    for (const Alternative& row : rows) record["alternatives"].push_back(to_json(row));
    for (const OnKind& row : kinds) record["kinds"].push_back(to_json(row));
    print_json(record);
    return 0;
  }
  print_line(without_controls(fmt::format("{} has {} replica{}: {}.", job.name, job.replicas,
                                          job.replicas == 1 ? "" : "s", why(job))));
  if (!rows.empty()) {
    print(fmt::format("\nPredictions from its own measurements{}:\n",
                      accelerator.empty() ? "" : " on " + without_controls(accelerator)) +
          to_text(rows));
    if (kinds.size() > 1) print("\nOne replica on the kinds that it has used:\n" + to_text(kinds));
  } else {
    print_line(without_controls("Alternatives are unknown: " + problem + "."));
  }
  return 0;
}

}  // namespace

Command explain_command() {
  return {.name = "explain",
          .summary = "Explain why a job has its present replicas",
          .text = embedded("explain.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl explain digits-x7k2p", "See why it has not more replicas."}},
          .run = run_explain};
}

}  // namespace adaptdl::cli
