#include "core/policy/sia/sia_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace adaptdl {
double restart_factor(double age_s, int restarts, double cost_s) {
  if (age_s < cost_s || age_s + cost_s <= 0) return 1;
  return std::max(age_s - restarts * cost_s, 0.0) / (age_s + cost_s);
}

std::vector<ConfigurationValue> sia_values(std::span<const Configuration> configurations,
                                           std::span<GoodputTable> goodput,
                                           const std::optional<Configuration>& present,
                                           double change, double p) {
  ADAPTDL_CHECK(p < 0);
  std::vector<ConfigurationValue> values;
  double least = std::numeric_limits<double>::infinity();
  for (const Configuration& c : configurations) {
    ConfigurationValue value;
    value.goodput = goodput[static_cast<size_t>(c.kind)].at(c.nodes, c.replicas);
    value.factor = c == present ? 1 : change;
    least = std::min(least, value.goodput);
    values.push_back(value);
  }
  for (ConfigurationValue& value : values) {
    // Parameters near the limits of a double may give zero or infinite goodput.
    value.normalised = least > 0 && std::isfinite(value.goodput) ? value.goodput / least : 1;
    value.value = value.factor > 0 ? std::pow(value.factor * value.normalised, p)
                                   : std::numeric_limits<double>::infinity();
  }
  return values;
}

}  // namespace adaptdl
