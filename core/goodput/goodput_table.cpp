#include "core/goodput/goodput_table.h"

#include <cmath>

#include "core/base/error.h"

namespace adaptdl {

double GoodputTable::at(int nodes, int replicas) {
  ADAPTDL_CHECK(0 <= nodes && nodes <= replicas && (nodes == 0) == (replicas == 0));
  if (replicas == 0) return 0;
  if (!model_) return speed_ * (power_ == 1 ? replicas : std::pow(replicas, power_));
  std::vector<double>& known = known_[nodes > 1];
  const auto index = static_cast<size_t>(replicas);
  if (known.size() <= index) known.resize(index + 1, -1);
  if (known[index] < 0) known[index] = model_->optimize(nodes, replicas, bounds_).goodput;
  return known[index];
}

}  // namespace adaptdl
