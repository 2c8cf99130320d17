#include "runtime/gns/recent_average.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "runtime/gns/decay.h"

namespace adaptdl::gns {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kShortestWindow =
    16;  // scale-invariant iterations; each next one is twice as long
constexpr size_t kWindows = 10;
// A window with fewer measurements tells too little to be compared with others.
constexpr double kComparable = 48;
// Half the width of the confidence intervals, in standard errors. Wider ones notice a change later.
constexpr double kConfidence = 0.85;

double length_of(size_t window) {
  return std::ldexp(kShortestWindow, static_cast<int>(window));
}

}  // namespace

RecentAverage::RecentAverage(int groups) : windows_(kWindows) {
  for (Window& window : windows_) window.groups.resize(static_cast<size_t>(groups));
}

void RecentAverage::add(int count, double scale, const std::vector<GroupMeasurement>& groups,
                        double progress) {
  ADAPTDL_CHECK(count >= 2 && scale > 0 && progress > 0 &&
                groups.size() == windows_.front().groups.size());
  double square = 0;
  GradParams all;
  for (const GroupMeasurement& group : groups) {
    square += group.square;
    all.sqr += group.params.sqr;
    all.var += group.params.var;
  }
  if (!(square > 0)) return;
  const double weight = scale * (count - 1), unit = weight / square;
  const double x = unit * all.sqr, y = unit * all.var;
  if (!std::isfinite(unit) || !std::isfinite(x * x + y * y)) return;
  for (size_t k = 0; k < kWindows; ++k) {
    const double keep = decay(progress / length_of(k));
    Window& window = windows_[k];
    window.weight = keep * window.weight + weight;
    for (size_t g = 0; g < groups.size(); ++g) {
      window.groups[g].sqr = keep * window.groups[g].sqr + unit * groups[g].params.sqr;
      window.groups[g].var = keep * window.groups[g].var + unit * groups[g].params.var;
    }
    window.xx = keep * keep * window.xx + x * x;
    window.xy = keep * keep * window.xy + x * y;
    window.yy = keep * keep * window.yy + y * y;
    if (k == 0) square_ = keep * square_ + weight * square;
  }
  choose();
}

RecentAverage::Estimate RecentAverage::estimate(const Window& window) {
  double x = 0, y = 0;
  for (const GradParams& group : window.groups) {
    x += group.sqr;
    y += group.var;
  }
  if (!(y > 0)) return {0, kInfinity, 0};
  const double phi = x / y, measurements = window.yy > 0 ? y * y / window.yy : 0;
  const double residuals = window.xx - 2 * phi * window.xy + phi * phi * window.yy;
  // With n measurements the residuals have n - 1 degrees of freedom.
  const double variance = measurements > 1 + 1e-9
                              ? std::max(residuals, 0.0) * measurements / (measurements - 1)
                              : kInfinity;
  return {phi, std::sqrt(variance) / y, measurements};
}

void RecentAverage::choose() {
  double low = -kInfinity, high = kInfinity;
  for (size_t k = 0; k < kWindows; ++k) {
    const Estimate here = estimate(windows_[k]);
    const bool comparable = here.measurements >= kComparable;
    if (comparable) {
      low = std::max(low, here.phi - kConfidence * here.error);
      high = std::min(high, here.phi + kConfidence * here.error);
      if (low > high) return;
    }
    chosen_ = k;
    estimate_ = here;
  }
}

GradParams RecentAverage::group(int index) const {
  const Window& window = windows_.at(chosen_);
  if (window.weight == 0) return {};
  const GradParams& sums = window.groups.at(static_cast<size_t>(index));
  const double square = square_ / windows_.front().weight;
  return {square * sums.sqr / window.weight, square * sums.var / window.weight};
}

double RecentAverage::window() const {
  return estimate_.measurements > 0 ? length_of(chosen_) : 0;
}

nlohmann::json RecentAverage::to_json() const {
  auto windows = nlohmann::json::array();
  for (const Window& window : windows_) {
    auto row = nlohmann::json::array({window.weight, window.xx, window.xy, window.yy});
    for (const GradParams& group : window.groups) {
      row.push_back(group.sqr);
      row.push_back(group.var);
    }
    windows.push_back(std::move(row));
  }
  return {{"windows", std::move(windows)}, {"square", square_}};
}

RecentAverage RecentAverage::from_json(const nlohmann::json& json, int groups) {
  const std::string what = "recent gradient statistics";
  const auto rows = json_get<std::vector<std::vector<double>>>(json, "windows", what);
  RecentAverage result(groups);
  result.square_ = json_get<double>(json, "square", what);
  if (rows.size() != kWindows) fail("{}: {} windows instead of {}", what, rows.size(), kWindows);
  for (size_t k = 0; k < kWindows; ++k) {
    const std::vector<double>& row = rows[k];
    if (row.size() != 4 + 2 * static_cast<size_t>(groups) ||
        !std::all_of(row.begin(), row.end(), [](double value) { return std::isfinite(value); })) {
      fail("{}: window {} must have {} finite numbers", what, k, 4 + 2 * groups);
    }
    Window& window = result.windows_[k];
    window.weight = row[0];
    window.xx = row[1];
    window.xy = row[2];
    window.yy = row[3];
    for (size_t g = 0; g < window.groups.size(); ++g) {
      window.groups[g] = {row[4 + 2 * g], row[5 + 2 * g]};
    }
  }
  result.choose();
  return result;
}

}  // namespace adaptdl::gns
