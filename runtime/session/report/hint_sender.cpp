#include "runtime/session/report/hint_sender.h"

#include <algorithm>
#include <cmath>

#include "core/job/hints.h"

namespace adaptdl {

namespace {

constexpr std::chrono::seconds kAfterRescale{1};

}  // namespace

void HintSender::step_ended(const Progress& progress, const StepFacts& facts,
                            const BatchPolicy& policy) {
  if (session_.rank() != 0 || !session_.takes_hints()) return;
  const TimePoint now = Monotonic::now();
  if (session_.generation() != generation_) {
    generation_ = session_.generation();
    if (next_ != TimePoint{}) next_ = std::min(next_, now + kAfterRescale);
  }
  if (now < next_) return;
  std::optional<SchedulingHints> hints = policy.hints(progress);
  if (!hints) return;
  next_ = now + kInterval;
  hints->global_batch = progress.batch.total(session_.replicas());
  hints->remaining_progress = facts.total_iterations - facts.iterations;
  const auto metric = [&hints](const char* name, double value) {
    if (std::isfinite(value)) hints->train_metrics[name] = value;
  };
  metric("loss", facts.summary.loss);
  metric("localBatch", static_cast<double>(facts.batch.atomic * facts.batch.micro_steps));
  metric("stepSeconds", facts.step_s);
  metric("syncSeconds", facts.summary.sync_s);
  const auto validated = progress.validation.find("loss");
  if (validated != progress.validation.end()) metric("validLoss", validated->second);
  session_.send_hints(to_json(*hints));
}

}  // namespace adaptdl
