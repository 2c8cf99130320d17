#include "runtime/session/report/reporter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace adaptdl {
namespace {

using nlohmann::json;

constexpr size_t kStepsForMedian = 6;

}  // namespace

Reporter::Reporter(Session& session, double iterations_per_epoch, const BatchSpec& bounds)
    : session_(session), iterations_per_epoch_(iterations_per_epoch), bounds_(bounds) {}

void Reporter::step(const StepFacts& f) {
  const Step step{.step = f.step,
                  .iterations = f.iterations,
                  .total_iterations = f.total_iterations,
                  .loss = f.summary.loss,
                  .samples = f.summary.samples,
                  .replicas = f.replicas,
                  .batch = f.batch,
                  .lr = f.lr,
                  .gain = f.gain,
                  .efficiency = f.efficiency,
                  .noise_scale = f.noise_scale,
                  .step_s = f.step_s,
                  .accum_s = f.summary.accum_s,
                  .optim_s = f.summary.optim_s,
                  .sync_s = f.summary.sync_s,
                  .generation = session_.generation(),
                  .skipped = f.skipped()};
  remembered_.push_back(step);
  if (remembered_.size() > kRemembered) remembered_.pop_front();
  repeat();
}

void Reporter::repeat() {
  if (session_.rank() != 0) return;
  for (const Step& step : remembered_) send(step);
  remembered_.clear();
}

void Reporter::send(const Step& s) {
  const double throughput = s.step_s > 0 ? s.samples / s.step_s : 0;
  json event = {{"event", "step"},
                {"step", s.step},
                {"epoch", s.iterations / iterations_per_epoch_},
                {"progress", s.iterations},
                {"progress_total", s.total_iterations},
                {"loss", s.loss},
                {"replicas", s.replicas},
                {"batch", s.samples},
                {"atomic", s.batch.atomic},
                {"accumulation", s.batch.micro_steps - 1},
                {"lr", s.lr},
                {"gain", s.gain},
                {"efficiency", s.efficiency},
                {"samples_per_s", throughput},
                {"goodput", throughput * s.efficiency},
                {"noise_scale", s.noise_scale > 0 ? json(s.noise_scale) : json(nullptr)},
                {"step_s", s.step_s},
                {"accum_s", s.accum_s},
                {"optim_s", s.optim_s},
                {"sync_s", s.sync_s},
                {"generation", s.generation}};
  if (s.skipped) event["skipped"] = true;
  session_.emit(event);
}

void Reporter::batch(const BatchPlan& plan, int replicas, double lr, double goodput,
                     const std::string& cause) {
  session_.emit(
      {{"event", "batch"},
       {"replicas", replicas},
       {"atomic", plan.atomic},
       {"accumulation", plan.micro_steps - 1},
       {"batch", plan.total(replicas)},
       {"scale", static_cast<double>(plan.total(replicas)) / static_cast<double>(bounds_.initial)},
       {"lr", lr},
       {"goodput_predicted", goodput > 0 ? json(goodput) : json(nullptr)},
       {"bounds",
        {{"initial", bounds_.initial},
         {"max", bounds_.max},
         {"atomic_min", bounds_.atomic_min},
         {"atomic_max", bounds_.atomic_max}}},
       {"cause", cause}});
}

void Reporter::epoch(int64_t epoch, int64_t step, double mean_loss) {
  session_.emit({{"event", "epoch"}, {"epoch", epoch}, {"step", step}, {"loss", mean_loss}});
}

void Reporter::validation(int64_t step, double epoch, const std::map<std::string, double>& metrics,
                          bool best, const std::string& problem) {
  json event = {{"event", "validation"}, {"step", step}, {"epoch", epoch}, {"metrics", metrics}};
  if (best) event["best"] = true;
  if (!problem.empty()) event["error"] = problem;
  session_.emit(event);
}

void Reporter::scalar(int64_t step, const std::string& name, double value) {
  session_.emit({{"event", "scalar"},
                 {"step", step},
                 {"name", name},
                 {"value", std::isfinite(value) ? json(value) : json(nullptr)}});
}

void Reporter::resume(int64_t step, const std::string& path,
                      const std::vector<std::string>& problems) {
  session_.emit({{"event", "resume"}, {"step", step}, {"path", path}, {"problems", problems}});
}

void Reporter::warm_start(const std::string& path, size_t tensors,
                          const std::vector<std::string>& kept,
                          const std::vector<std::string>& skipped) {
  session_.emit({{"event", "warm_start"},
                 {"path", path},
                 {"tensors", tensors},
                 {"kept", kept},
                 {"skipped", skipped}});
}

void Reporter::skipped(int64_t step, int64_t total, int in_a_row) {
  session_.emit({{"event", "skipped"},
                 {"step", step},
                 {"reason", "the loss or its gradient is not finite"},
                 {"total", total},
                 {"in_a_row", in_a_row}});
}

void Reporter::diverged(int64_t step, const std::vector<uint64_t>& members,
                        const std::vector<std::string>& tensors) {
  session_.emit(
      {{"event", "diverged"}, {"step", step}, {"members", members}, {"tensors", tensors}});
}

void Reporter::generation(double transfer_s, uint64_t bytes, bool had_state) {
  flush();
  generation_ = session_.generation();
  watching_ = had_state;
  transfer_s_ = transfer_s;
  bytes_ = bytes;
  gaps_.clear();
}

void Reporter::step_ended(int64_t step, double slowest_previous_s) {
  if (!watching_) return;
  // The gather of a step carries the durations of the previous step: the first belongs to the old
  // generation.
  if (first_step_ == 0) {
    first_step_ = step;
    return;
  }
  gaps_.push_back(slowest_previous_s);
  if (gaps_.size() >= kStepsForMedian) flush();
}

void Reporter::flush() {
  if (watching_ && !gaps_.empty()) {
    std::vector<double> others(gaps_.begin() + 1, gaps_.end());
    double median = 0;
    if (!others.empty()) {
      std::nth_element(others.begin(), others.begin() + others.size() / 2, others.end());
      median = others[others.size() / 2];
    }
    session_.emit({{"event", "rescale"},
                   {"generation", generation_},
                   {"step", first_step_},
                   {"pause_s", std::max(0.0, gaps_[0] - median)},
                   {"transfer_s", transfer_s_},
                   {"bytes", bytes_}});
  }
  watching_ = false;
  first_step_ = 0;
  gaps_.clear();
}

}  // namespace adaptdl
