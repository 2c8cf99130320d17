#include "runtime/session/hint_sender.h"

#include <algorithm>

#include "core/job/hints.h"

namespace adaptdl {

namespace {

constexpr std::chrono::seconds kAfterRescale{1};

}  // namespace

void HintSender::step_ended(const Progress& progress, const BatchPolicy& policy) {
  if (session_.rank() != 0 || !session_.has_launcher()) return;
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
  hints->remaining_progress = std::max(0.0, total_iterations_ - progress.iterations);
  session_.send({{"type", "hints"}, {"hints", to_json(*hints)}});
}

}  // namespace adaptdl
