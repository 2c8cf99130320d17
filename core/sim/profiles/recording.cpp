#include "core/sim/profiles/recording.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/goodput/fit.h"

namespace adaptdl {
namespace {

constexpr int kFormat = 1;      // newest supported format of the stream
constexpr int kSlowSteps = 3;   // after a change of replicas or batch
constexpr int64_t kFewest = 5;  // fewest steps for a mean
constexpr size_t kMaxLine = 16u << 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double positive(const Json& event, std::string_view key, const std::string& at) {
  const auto value = json_get<double>(event, key, at);
  if (!(value > 0)) fail("{}: {} is {}; it must be above 0", at, key, value);
  return value;
}

bool differs(double a, double b) {
  return std::abs(a - b) > 1e-6 * std::max(std::abs(a), std::abs(b));
}

// Whether a scheduler caused the rescale. Pauses after a death include the time to detect it.
bool planned(const std::string& cause) {
  return cause == "scale" || cause == "replicas-at" || cause == "leave" || cause == "replacement";
}

// Profiles assume constant times outside the measured batches, so large batches that a run never
// tried would seem free. So each number of replicas gets times for both ends of the range in the
// settings: its nearest measurement, scaled by the step-time model fitted to all measurements.
void measure_ends(Measurements& data, int64_t atomic_min, int64_t atomic_max) {
  std::vector<PerfObservation> observations;
  std::map<int, std::vector<PlacementMeasurement>> by_replicas;
  for (const PlacementMeasurement& it : data.placements) {
    const double accum_s = std::max(it.time.step_s - it.time.sync_s, 1e-6 * it.time.step_s);
    observations.push_back(
        {1, it.gpus[0], static_cast<double>(it.atomic), accum_s, it.time.step_s});
    by_replicas[it.gpus[0]].push_back(it);
  }
  const PerfParams model = fit_perf_params(observations);
  const auto add = [&](PlacementMeasurement nearest, int64_t atomic) {
    const auto step_s = [&](int64_t samples) {
      return optim_time(model, 1, nearest.gpus[0], static_cast<double>(samples));
    };
    nearest.time.step_s *= step_s(atomic) / step_s(nearest.atomic);
    nearest.time.sync_s = std::min(nearest.time.sync_s, nearest.time.step_s);
    nearest.atomic = atomic;
    data.placements.push_back(nearest);
  };
  for (const auto& [replicas, measured] : by_replicas) {  // by growing batch
    if (atomic_min < measured.front().atomic) add(measured.front(), atomic_min);
    if (atomic_max > measured.back().atomic) add(measured.back(), atomic_max);
  }
}

}  // namespace

// The state of reading one stream.
struct Recording::Reader {
  Recording& to;
  bool started = false;
  int slow_left = kSlowSteps;
  std::string run, accelerator;
  std::optional<double> start_s, first_step_s;  // when they were; none: its start has been timed
  double total = 0, progress = 0;
  std::vector<double> noise;  // of the epoch in progress

  void take(const Json& event, const std::string& at) {
    const auto kind = json_get<std::string>(event, "event", at);
    if (kind == "start") {
      start(event, at);
    } else if (!started) {
      fail(
          "{}: starts with '{}' instead of 'start'; give the whole output of `adaptdl run -o json`",
          at, kind);
    } else if (kind == "generation" || kind == "batch") {
      slow_left = kSlowSteps;
      if (kind == "batch") {
        to.take_bounds(event, at);
      } else {
        accelerator = json_get_or<std::string>(event, "accelerator", at, "");
      }
    } else if (kind == "resume") {
      noise.clear();
    } else if (kind == "step") {
      step(event, at);
    } else if (kind == "epoch") {
      epoch(event, at);
    } else if (kind == "end") {
      end(event, at);
    } else if (kind == "rescale") {
      const bool counts = planned(json_get<std::string>(event, "cause", at)) &&
                          json_get<int64_t>(event, "from", at) > 0;
      if (counts) to.pauses_s_.push_back(json_get<double>(event, "pause_s", at));
    }
  }

  void start(const Json& event, const std::string& at) {
    const auto format = json_get<int>(event, "format", at);
    if (format > kFormat)
      fail("{}: format is {}, but this adaptdl reads up to {}; get a newer adaptdl", at, format,
           kFormat);
    run = json_get<std::string>(event, "name", at);
    if (to.name_.empty()) to.name_ = run;
    start_s = json_find<double>(event, "time_s", at);
    first_step_s.reset();
    started = true;
    slow_left = kSlowSteps;
    noise.clear();
  }

  void step(const Json& event, const std::string& at) {
    if (to.initial_batch_ == 0) fail("{}: no 'batch' event came before this step", at);
    ++to.steps_;
    if (json_get_or<int64_t>(event, "step", at, 0) == 1) to.runs_.erase(run);
    if (!first_step_s) first_step_s = json_find<double>(event, "time_s", at);
    progress = json_get<double>(event, "progress", at);
    total = positive(event, "progress_total", at);
    const double epoch = json_get<double>(event, "epoch", at);
    if (epoch > 0 && progress > 0) {
      const double per_epoch = progress / epoch;
      if (to.epoch_progress_ == 0) to.epoch_progress_ = per_epoch;
      if (differs(per_epoch, to.epoch_progress_)) {
        fail(
            "{}: an epoch has {:.6g} steps of the initial batch, but {:.6g} in earlier input; "
            "all runs must train the same program on the same data",
            at, per_epoch, to.epoch_progress_);
      }
    }
    if (json_get_or<bool>(event, "skipped", at, false)) return;
    if (const auto scale = json_find<double>(event, "noise_scale", at)) noise.push_back(*scale);
    if (slow_left > 0) {
      --slow_left;
      return;
    }
    time_start(event, at);
    to.take_times(event, accelerator, at);
  }

  // From the start to the end of the first step, less the time of a usual step like this one.
  void time_start(const Json& event, const std::string& at) {
    if (start_s && first_step_s) {
      const double step_s = json_get<double>(event, "step_s", at);
      to.starts_s_.push_back(std::max(0.0, *first_step_s - *start_s - step_s));
    }
    start_s.reset();
  }

  void epoch(const Json& event, const std::string& at) {
    const auto number = json_get<int>(event, "epoch", at);
    if (number < 1 || total <= 0) fail("{}: epoch {} ended before its first step", at, number);
    for (Epochs* epochs : {&to.trainings_[to.epochs_in(total)], &to.runs_[run]}) {
      Epoch& epoch = (*epochs)[number];
      if (!epoch.end || epoch.partial) epoch = {progress, {}, false};
      epoch.noise.insert(epoch.noise.end(), noise.begin(), noise.end());
    }
    noise.clear();
  }

  // A training that max_steps, max_time or early stopping ended is complete with fewer epochs than
  // its steps expected. The last one may be a part of one.
  void end(const Json& event, const std::string& at) {
    if (json_get_or<std::string>(event, "ended_by", at, "").empty()) return;
    Epochs& epochs = to.runs_[run];
    const int last = epochs.empty() ? 0 : epochs.rbegin()->first;
    const double before = epochs.empty() ? 0 : *epochs.rbegin()->second.end;
    if (!noise.empty() && progress > before) epochs[last + 1] = {progress, noise, true};
    if (!epochs.empty()) to.trainings_[epochs.rbegin()->first].merge(epochs);
    to.runs_.erase(run);
  }
};

void Recording::add(std::istream& stream, const std::string& path) {
  Reader reader{*this};
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::string at = fmt::format("{}:{}", path, number);
    if (line.empty()) continue;
    Json event;
    try {
      event = parse_json(line, at, {.max_bytes = kMaxLine});
    } catch (const Error&) {
      if (stream.eof() && reader.started) break;  // the incomplete last line of an interrupted run
      throw;
    }
    reader.take(event, at);
  }
  if (!reader.started)
    fail("{}: contains no event; give the output of `adaptdl run -o json`", path);
}

void Recording::take_bounds(const Json& event, const std::string& at) {
  const auto samples = [&at](double batch, const char* what) {
    if (batch >= 0.5 && batch <= static_cast<double>(kMaxBatch)) return std::llround(batch);
    fail("{}: {} batch is {} samples; from 1 to {} are allowed", at, what, format_number(batch),
         kMaxBatch);
  };
  const double batch = positive(event, "batch", at), scale = positive(event, "scale", at);
  const auto bounds = json_find<Json>(event, "bounds", at);
  const int64_t initial =
      samples(bounds ? json_get<double>(*bounds, "initial", at) : batch / scale, "the initial");
  const int64_t most =
      samples(bounds ? json_get<double>(*bounds, "max", at) : batch, "the largest");
  if (bounds) {
    const auto low = json_get<int64_t>(*bounds, "atomic_min", at);
    const auto high = json_get<int64_t>(*bounds, "atomic_max", at);
    atomic_min_ = std::min(atomic_min_.value_or(low), low);
    atomic_max_ = std::max(atomic_max_.value_or(high), high);
  }
  if (initial_batch_ != 0 && initial != initial_batch_) {
    fail("{}: the initial batch is {}, but {} in earlier input; all runs must have the same", at,
         initial, initial_batch_);
  }
  initial_batch_ = initial;
  max_batch_ = std::max({max_batch_, most, initial});
}

void Recording::take_times(const Json& event, const std::string& kind, const std::string& at) {
  const auto replicas = json_get<int>(event, "replicas", at);
  const auto atomic = json_get<int64_t>(event, "atomic", at);
  const auto accumulation = json_get<int64_t>(event, "accumulation", at);
  if (replicas < 1 || atomic < 1 || accumulation < 0) {
    fail("{}: replicas, atomic and accumulation are {}, {} and {}; at least 1, 1 and 0 are needed",
         at, replicas, atomic, accumulation);
  }
  // The last step of an epoch may have fewer samples.
  const double whole = static_cast<double>(replicas) * static_cast<double>(atomic) *
                       static_cast<double>(accumulation + 1);
  if (json_get<double>(event, "batch", at) != whole) return;
  const double accumulating =
      static_cast<double>(accumulation) * json_get<double>(event, "accum_s", at);
  const double step_s = json_get<double>(event, "step_s", at) - accumulating;
  if (!(step_s > 0)) return;
  Times& times = times_[kind][{replicas, atomic}];
  times.step_s += step_s;
  times.sync_s += std::clamp(json_get<double>(event, "sync_s", at), 0.0, step_s);
  ++times.steps;
}

Measurements Recording::measurements(const TimesByPlacement& of_kind) const {
  Measurements measured;
  for (const auto& [key, times] : of_kind) {
    if (times.steps < kFewest) continue;
    const auto count = static_cast<double>(times.steps);
    measured.placements.push_back(
        {{key.first}, key.second, {times.step_s / count, times.sync_s / count}});
  }
  if (measured.placements.empty()) return measured;
  if (atomic_min_) measure_ends(measured, *atomic_min_, std::min(*atomic_max_, max_batch_));
  measured.atomic_min = atomic_min_;
  measured.atomic_max = atomic_max_;
  return measured;
}

std::vector<std::string> Recording::kinds() const {
  std::vector<std::string> names;
  for (const auto& [kind, times] : times_) {
    if (!kind.empty()) names.push_back(kind);
  }
  return names;
}

double Recording::epochs_in(double total_progress) const {
  return std::round(total_progress / epoch_progress_);
}

const Recording::Epochs& Recording::whole_training() const {
  if (trainings_.empty()) fail("no epoch was recorded; let a run train to its end");
  std::string missing;
  for (auto training = trainings_.rbegin(); training != trainings_.rend(); ++training) {
    const auto& [count, epochs] = *training;
    int first_missing = 1;
    while (epochs.contains(first_missing)) ++first_missing;
    if (first_missing > count) return epochs;
    if (!missing.empty()) missing += ", ";
    missing += fmt::format("epoch {} of {:.6g}", first_missing, count);
  }
  fail(
      "no complete training was recorded: {} is missing; let a run finish (with --set epochs=N "
      "for a shorter one) and give all its events",
      missing);
}

ProfileData Recording::profile(const std::string& application) const {
  if (steps_ == 0) fail("no step was recorded; let a run train to its end");
  ProfileData data;
  data.application = application;
  data.whole_seconds = false;
  std::map<std::string, Measurements> measured;
  for (const auto& [kind, times] : times_) {
    Measurements one = measurements(times);
    if (!one.placements.empty()) measured[kind] = std::move(one);
  }
  if (measured.empty()) {
    fail("{} steps are too few; {} with the same replicas and batch are needed", steps_, kFewest);
  }
  if (measured.size() == 1) {
    static_cast<Measurements&>(data) = std::move(measured.begin()->second);
  } else {
    data.kinds = std::move(measured);
  }
  data.initial_batch = initial_batch_;
  data.max_batch = max_batch_;
  if (!pauses_s_.empty()) data.rescale_s = mean_of(pauses_s_);
  if (!starts_s_.empty()) data.start_s = median(starts_s_);

  const Epochs& epochs = whole_training();
  std::vector<double> ratio;  // var / sqr, by epoch; 0 where nothing is known
  for (const auto& [number, epoch] : epochs) {
    ratio.push_back(
        epoch.noise.empty() ? 0 : median(epoch.noise) / static_cast<double>(initial_batch_));
  }
  const auto is_known = [](double value) { return value > 0; };
  const auto known = std::find_if(ratio.begin(), ratio.end(), is_known);
  if (known == ratio.end()) fail("no step has a noise_scale; train for longer");
  std::fill(ratio.begin(), known, *known);
  for (size_t e = 1; e < ratio.size(); ++e) ratio[e] = ratio[e] > 0 ? ratio[e] : ratio[e - 1];

  for (int64_t batch = initial_batch_;; batch = std::min(2 * batch, max_batch_)) {
    const double scale = static_cast<double>(batch) / static_cast<double>(initial_batch_);
    ValidationRun run{batch, {}};
    double before = 0, iterations = 0;
    size_t e = 0;
    for (const auto& [number, epoch] : epochs) {
      const GradParams grad{1, ratio[e++]};
      iterations += (*epoch.end - before) / gain(grad, scale);
      before = *epoch.end;
      run.epochs.push_back({before, iterations, grad});
    }
    data.runs.push_back(std::move(run));
    if (batch == max_batch_) break;
  }
  const Profile usable(data);  // throws Error if it is invalid
  return data;
}

}  // namespace adaptdl
