#include "core/policy/job_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/median.h"

namespace adaptdl {
namespace {

constexpr double kLook = 5;                 // assumed length of a new job, in starts
constexpr double kYoung = 2;                // GPU seconds that count as few, in starts
constexpr int64_t kRankedOn = 8;            // replicas for comparing lengths, if there are so many
constexpr int kSmall = 4, kLarge = 32;      // numbers of replicas for estimating the scaling
constexpr double kLeast = 1.6, kUsual = 2;  // exponents

// What the job has measured, on its first kind of accelerator; null if nothing. Hints without a
// kind count last: they are of the present one, so that a move would change the job's rank.
const PerfParams* measured(const JobHints& hints) {
  for (const auto& [kind, known] : hints.kinds) {
    if (known.perf) return &*known.perf;
  }
  return hints.perf ? &*hints.perf : nullptr;
}

// The goodput model of a job with known remaining work, by its first kind of accelerator.
std::optional<GoodputModel> model_of(const JobHints& hints) {
  const PerfParams* perf = measured(hints);
  if (!hints.remaining_progress || !hints.batch || !perf) return std::nullopt;
  return GoodputModel(*perf, hints.grad.value_or(GradParams{}), hints.batch->initial);
}

// Seconds to the job's end on a few replicas, or on 1 if more do not help. Empty for a job that
// makes no progress.
std::optional<double> remaining_s(const JobSnapshot& job, const GoodputModel& model, int most) {
  const BatchBounds& batch = *job.hints.batch;
  double best = 0;  // samples/s
  for (int replicas = 1; replicas <= std::min(most, job.max_replicas); replicas *= 2) {
    best = std::max(best, model.optimize(1, replicas, batch).goodput);
  }
  return best > 0 ? std::optional(*remaining_samples(job.hints) / best) : std::nullopt;
}

// heSRPT's exponent 1 / (1 - p) for a job whose goodput grows as replicas^p, from few replicas on
// one node to many on several nodes. Jobs that cannot grow so large do not wait long in any case.
double exponent_of(const JobSnapshot& job, const GoodputModel& model, double most) {
  const BatchBounds& batch = *job.hints.batch;
  const int large = std::min(kLarge, job.max_replicas);
  if (large < 2 * kSmall) return std::min(kUsual, most);
  const double gain =
      model.optimize(2, large, batch).goodput / model.optimize(1, kSmall, batch).goodput;
  const double power = std::log(gain) / std::log(static_cast<double>(large) / kSmall);
  const double exponent = power < 1 ? 1 / (1 - power) : most;
  return std::isfinite(exponent) ? std::clamp(exponent, std::min(kLeast, most), most) : kUsual;
}

std::optional<double> measured_start_s(const JobHints& hints) {
  if (!hints.rescale_cost_s && !hints.start_cost_s) return std::nullopt;
  return hints.rescale_cost_s.value_or(0) + hints.start_cost_s.value_or(0);
}

// Seconds that a start takes, by job: as the job has measured it; else the median of those that
// have, else the option, and of a silent job at least what is assumed of it. > 0.
std::vector<double> start_times(const Snapshot& snapshot, double unmeasured_s) {
  constexpr double kShortest = 1e-3;
  std::vector<double> measured;
  for (const JobSnapshot& job : snapshot.jobs) {
    if (const auto start_s = measured_start_s(job.hints)) measured.push_back(*start_s);
  }
  const double usual = measured.empty() ? unmeasured_s : lower_median(std::move(measured));
  std::vector<double> times;
  for (const JobSnapshot& job : snapshot.jobs) {
    const double start_s = rescale_cost_s(job, usual) + job.hints.start_cost_s.value_or(0);
    times.push_back(std::max(start_s, kShortest));
  }
  return times;
}

// What a replica of the job is served in a second, as JobSnapshot::attained_service counts it.
double service_rate(const Snapshot& snapshot, const JobSnapshot& job) {
  const bool counted = is_accelerator(snapshot.resources[0]) && job.request[0] > 0;
  return counted ? static_cast<double>(job.request[0]) : 1;
}

// Seconds to the end of a job that has measured nothing. If others were like it, they tell; else it
// tells its length soon, and if it has not, the longer it has lasted, the longer it will still
// last.
double unmeasured_s(const Snapshot& snapshot, const JobSnapshot& job, double look_s, int most) {
  const double rate = std::min(most, job.max_replicas) * service_rate(snapshot, job);
  if (job.length_rank) return *job.length_rank / rate;
  return std::max(look_s, job.attained_service / rate);
}

}  // namespace

std::optional<double> remaining_samples(const JobHints& hints) {
  if (!hints.remaining_progress || !hints.batch) return std::nullopt;
  return *hints.remaining_progress * static_cast<double>(hints.batch->initial);
}

std::vector<double> job_weights(const Snapshot& snapshot, const WeightOptions& options) {
  struct Ranked {
    double remaining_s;
    size_t job;
    double exponent;
  };
  const std::vector<double> start_s = start_times(snapshot, options.rescale_cost_s);
  int64_t gpus = 0;
  for (const NodeSnapshot& node : snapshot.nodes) gpus += node.capacity[0];
  const auto few = static_cast<int>(std::clamp<int64_t>(gpus, 1, kRankedOn));
  std::vector<Ranked> ranked;
  std::vector<size_t> new_jobs, unknown;
  for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
    const JobSnapshot& job = snapshot.jobs[j];
    const auto model = model_of(job.hints);
    const auto seconds = model ? remaining_s(job, *model, few) : std::nullopt;
    if (seconds) {
      ranked.push_back({*seconds, j, exponent_of(job, *model, options.preference)});
    } else {
      (measured(job.hints) ? unknown : new_jobs).push_back(j);
    }
  }
  // A new job is ranked with the jobs of known remaining work, if there are any.
  for (const size_t j : new_jobs) {
    if (ranked.empty()) {
      unknown.push_back(j);
    } else {
      ranked.push_back({unmeasured_s(snapshot, snapshot.jobs[j], kLook * start_s[j], few), j,
                        std::min(kUsual, options.preference)});
    }
  }

  std::vector<double> weights(snapshot.jobs.size());
  std::sort(ranked.begin(), ranked.end(), [&](const Ranked& a, const Ranked& b) {
    if (a.remaining_s != b.remaining_s) return a.remaining_s > b.remaining_s;
    const JobSnapshot &one = snapshot.jobs[a.job], &other = snapshot.jobs[b.job];
    if (one.age_s != other.age_s) return one.age_s < other.age_s;
    return one.name > other.name;
  });
  const auto count = static_cast<double>(ranked.size());
  for (size_t i = 0; i < ranked.size(); ++i) {
    const auto rank = static_cast<double>(i);
    const double share = std::pow((rank + 1) / count, ranked[i].exponent) -
                         std::pow(rank / count, ranked[i].exponent);
    weights[ranked[i].job] = std::max(options.least, share * count);
  }

  double sum = 0;
  for (const size_t j : unknown) {
    const JobSnapshot& job = snapshot.jobs[j];
    weights[j] = std::pow(job.length_rank.value_or(job.attained_service) + kYoung * start_s[j],
                          -options.service_exponent);
    sum += weights[j];
  }
  for (const size_t j : unknown) {
    weights[j] = std::max(options.least, weights[j] * static_cast<double>(unknown.size()) / sum);
  }
  return weights;
}

}  // namespace adaptdl
