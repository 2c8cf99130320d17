#include "core/launch/run/run_tensorboard.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/formats/json_fields.h"

namespace adaptdl::launch {
namespace {

// Every step is written up to the first number. Later steps are written at most this often, and
// less often the longer the run lasts: charts show no more, and files would grow by a kilobyte a
// step.
constexpr int64_t kAllSteps = 10'000;
constexpr double kStepInterval = 0.1;   // s
constexpr double kStepShare = 20'000;   // of the elapsed time
constexpr double kFlushInterval = 5.0;  // s

// Fields of `step` events, and their charts.
constexpr std::pair<const char*, const char*> kStepCharts[] = {
    {"loss", "loss/train"},
    {"lr", "train/learning_rate"},
    {"epoch", "train/epoch"},
    {"progress", "train/progress"},
    {"batch", "batch/global"},
    {"atomic", "batch/atomic"},
    {"accumulation", "batch/accumulation"},
    {"replicas", "elastic/replicas"},
    {"gain", "statistics/gain"},
    {"efficiency", "statistics/efficiency"},
    {"noise_scale", "statistics/gradient_noise_scale"},
    {"samples_per_s", "speed/samples_per_s"},
    {"goodput", "speed/goodput"},
    {"step_s", "time/step_s"},
    {"accum_s", "time/accumulation_s"},
    {"optim_s", "time/optimizer_s"},
    {"sync_s", "time/synchronisation_s"},
};

// Fields of `gpu` events: each has a chart for each replica.
constexpr const char* kGpuCharts[] = {"busy_percent", "memory_used_bytes", "temperature_c",
                                      "power_w"};

// A number that is not finite arrives as null: it has no point in its chart.
std::optional<double> find_number(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? std::optional(found->get<double>())
                                                    : std::nullopt;
}

double number(const Json& event, const char* key) {
  return find_number(event, key).value_or(0.0);
}

}  // namespace

TensorBoard::TensorBoard(const std::string& folder, const std::string& run)
    : file_(join_path(folder, run), wall_now_s(), host_name()), start_wall_time_(wall_now_s()) {}

void TensorBoard::add(const std::string& tag, std::optional<double> value, double wall_time,
                      int64_t step) {
  if (!value) return;
  const Scalar point{tag, *value};
  file_.add(wall_time, step, {&point, 1});
}

void TensorBoard::step(const Json& event, double wall_time) {
  newest_step_ = static_cast<int64_t>(number(event, "step"));
  const double interval = std::max(kStepInterval, (wall_time - start_wall_time_) / kStepShare);
  if (++steps_ > kAllSteps && wall_time - last_step_time_ < interval) return;
  last_step_time_ = wall_time;
  std::vector<Scalar> scalars;
  for (const auto& [field, tag] : kStepCharts) {
    if (const auto value = find_number(event, field)) scalars.push_back({tag, *value});
  }
  file_.add(wall_time, *newest_step_, scalars);
}

// At the newest step, since it belongs to none; a run that goes on does not begin at 0.
void TensorBoard::gpu(const Json& event, double wall_time) {
  if (!newest_step_) return;
  for (const char* field : kGpuCharts) {
    const std::string tag = fmt::format("gpu/{}/replica_{}", field, number(event, "member"));
    add(tag, find_number(event, field), wall_time, *newest_step_);
  }
}

void TensorBoard::event(const Json& event) {
  if (!event.is_object()) return;
  const std::string kind = text_at(event, "event");
  const double wall_time = start_wall_time_ + number(event, "time_s");
  const auto at_step = static_cast<int64_t>(number(event, "step"));
  if (kind == "step") {
    step(event, wall_time);
  } else if (kind == "gpu") {
    gpu(event, wall_time);
  } else if (kind == "epoch") {
    add("loss/epoch", find_number(event, "loss"), wall_time, at_step);
  } else if (kind == "validation") {
    const auto metrics = event.find("metrics");
    if (metrics == event.end() || !metrics->is_object()) return;
    for (const auto& [name, value] : metrics->items()) {
      add("validation/" + name, find_number(*metrics, name.c_str()), wall_time, at_step);
    }
  } else if (kind == "scalar") {
    add("user/" + text_at(event, "name"), find_number(event, "value"), wall_time, at_step);
  } else if (kind == "rescale") {
    add("elastic/pause_s", find_number(event, "pause_s"), wall_time, at_step);
  }
  if (kind == "end" || wall_time - last_flush_ >= kFlushInterval) {
    file_.flush();
    last_flush_ = wall_time;
  }
}

std::shared_ptr<TensorBoard> charts_if_possible(const std::string& folder, const std::string& run,
                                                const Talk& talk) {
  try {
    return std::make_shared<TensorBoard>(folder, run);
  } catch (const Error& error) {
    talk(fmt::format("{}; the run goes on without TensorBoard's charts", error.what()));
    return nullptr;
  }
}

std::string TensorBoard::problem() const {
  if (file_.dropped() == 0) return "";
  return fmt::format("{}: {} events are missing: {}", file_.path(), file_.dropped(), file_.error());
}

}  // namespace adaptdl::launch
