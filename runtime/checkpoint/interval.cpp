#include "runtime/checkpoint/interval.h"

#include <algorithm>
#include <cmath>

namespace adaptdl {
namespace {

constexpr double kShortest = 1.0;   // s
constexpr double kOfWriting = 3.0;  // the interval, at least, as a multiple of the write's time
constexpr double kPriorFailures = 0.25;
constexpr double kPriorTrained = 600;  // s
constexpr double kMemory = 3600;       // s

}  // namespace

double optimal_interval(double cost_s, double mtbf_s) {
  if (cost_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = cost_s / (2 * mtbf_s);
  return std::sqrt(2 * cost_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

double checkpoint_interval(const CheckpointCost& cost, double mtbf_s, double longest_s) {
  const double least = std::max(kShortest, kOfWriting * cost.write_s);
  return std::min(std::max(optimal_interval(cost.training_s, mtbf_s), least), longest_s);
}

void FailureHistory::trained(double seconds) {
  const double kept = std::exp(-seconds / kMemory);
  failures *= kept;
  trained_s = trained_s * kept + kMemory * (1 - kept);
}

double FailureHistory::mtbf_s() const {
  return (trained_s + kPriorTrained) / (failures + kPriorFailures);
}

}  // namespace adaptdl
