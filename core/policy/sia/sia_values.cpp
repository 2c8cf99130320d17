#include "core/policy/sia/sia_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace adaptdl {
namespace {

void add_single_node(const KindRoom& room, int kind, int least, int most,
                     std::vector<Configuration>& all) {
  const int largest = std::min(room.single, most);
  for (int64_t replicas = 1; replicas < room.per_node; replicas *= 2) {
    if (replicas >= least && replicas <= largest) {
      all.push_back({kind, 1, static_cast<int>(replicas)});
    }
  }
  if (room.per_node >= least && room.per_node <= largest) all.push_back({kind, 1, room.per_node});
}

}  // namespace

std::vector<Configuration> sia_configurations(std::span<const KindRoom> kinds, int least,
                                              int most) {
  std::vector<Configuration> all;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const KindRoom& room = kinds[k];
    if (room.per_node < 1) continue;
    const auto kind = static_cast<int>(k);
    add_single_node(room, kind, least, most, all);
    for (int nodes = 2; nodes <= std::min(room.whole_nodes, most / room.per_node); ++nodes) {
      if (nodes * room.per_node >= least) all.push_back({kind, nodes, nodes * room.per_node});
    }
  }
  if (!all.empty()) return all;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const KindRoom& room = kinds[k];
    if (room.per_node < 1) continue;
    const int nodes = (least - 1) / room.per_node + 1;
    if (nodes == 1 ? least <= room.single : nodes <= room.whole_nodes) {
      all.push_back({static_cast<int>(k), nodes, least});
    }
  }
  return all;
}

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
