#include "runtime/session/report/pace_sender.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace adaptdl {

namespace {

double others_sync_s(const std::vector<ReplicaTiming>& timings, size_t rank) {
  std::vector<double> others;
  for (size_t other = 0; other < timings.size(); ++other) {
    if (other != rank) others.push_back(timings[other].sync_s);
  }
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return *middle;
}

}  // namespace

void PaceSender::step_ended(const StepFacts& facts) {
  if (session_.rank() != 0 || !session_.has_launcher() || facts.replicas < 2) return;
  if (session_.generation() != generation_ || facts.batch != batch_) {
    generation_ = session_.generation();
    batch_ = facts.batch;
    settling_ = kSettling;
    sums_.clear();
  }
  if (!facts.whole || std::exchange(settling_, std::max(0, settling_ - 1)) > 0) return;
  const std::vector<ReplicaTiming>& timings = facts.summary.timings;
  if (sums_.empty()) {
    sums_.resize(timings.size());
    steps_ = 0;
    seconds_ = 0;
  }
  for (size_t rank = 0; rank < timings.size(); ++rank) {
    sums_[rank].compute_s += timings[rank].compute_s;
    sums_[rank].samples += timings[rank].samples;
    // All wait for the transfer, but only the others for this one. By step: if this one is stopped
    // while it waits itself, that must not hide for how long the others have waited before.
    sums_[rank].waited_s += std::max(0.0, others_sync_s(timings, rank) - timings[rank].sync_s);
  }
  ++steps_;
  seconds_ += facts.step_s;
  if (steps_ < kWindowSteps || seconds_ < kWindow_s) return;
  send();
  sums_.clear();
}

void PaceSender::send() const {
  nlohmann::json replicas = nlohmann::json::array();
  for (const Sum& sum : sums_) {
    replicas.push_back(
        {{"compute_s", sum.compute_s}, {"samples", sum.samples}, {"waited_s", sum.waited_s}});
  }
  session_.send({{"type", "pace"},
                 {"generation", generation_},
                 {"steps", steps_},
                 {"seconds", seconds_},
                 {"replicas", std::move(replicas)}});
}

}  // namespace adaptdl
