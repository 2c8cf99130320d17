#include "runtime/gns/statistics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/formats/json.h"
#include "runtime/gns/decay.h"

namespace adaptdl::gns {
namespace {

constexpr double kSmoothing = 0.999;
constexpr double kMinusLogSmoothing = 0.0010005003335835335;
constexpr double kSmallestVar = 1e-6;
constexpr size_t kMostGroups = 1u << 20;

bool finite(const GroupSample& s) {
  return std::isfinite(s.local) && std::isfinite(s.total) && std::isfinite(s.previous) &&
         std::isfinite(s.product);
}

}  // namespace

GradientStatistics::GradientStatistics(int groups, Averaging averaging)
    : averaging_(averaging), sums_(static_cast<size_t>(groups)), recent_(groups) {}

bool GradientStatistics::update(int count, double scale, const std::vector<GroupSample>& groups,
                                double steps) {
  ADAPTDL_CHECK(groups.size() == sums_.size() && count >= 1 && scale > 0 && steps >= 1);
  if (!std::all_of(groups.begin(), groups.end(), finite)) return false;
  const bool differenced = count == 1;
  const double batch_scale = scale;
  if (differenced) {
    if (std::all_of(groups.begin(), groups.end(), [](auto& g) { return g.previous == 0; })) {
      return false;
    }
    count = 2;
    scale *= 2;
  }
  std::vector<GroupMeasurement> samples;
  for (const auto& g : groups) {
    const double local = differenced ? (g.total + g.previous) / 2 : g.local;
    const double total = differenced ? (g.total + g.previous + 2 * g.product) / 4 : g.total;
    const GradParams sample{(count * total - local) / (count - 1),
                            (local - total) * scale / (count - 1)};
    // Finite norms can still overflow here.
    if (!std::isfinite(sample.sqr) || !std::isfinite(sample.var)) return false;
    samples.push_back({local, sample});
  }

  if (averaging_ == Averaging::adaptdl && biased_ && !differenced) {
    *this = GradientStatistics(this->groups(), averaging_);
  }
  biased_ = differenced;
  ++samples_;
  if (averaging_ == Averaging::recent) {
    recent_.add(count, batch_scale, samples, steps * gain(batch_scale));
    return true;
  }
  const double keep = decay(kMinusLogSmoothing * scale * steps);
  weight_ = keep * weight_ + (1 - keep);
  for (size_t i = 0; i < samples.size(); ++i) {
    sums_[i].sqr = keep * sums_[i].sqr + (1 - keep) * samples[i].params.sqr;
    sums_[i].var = keep * sums_[i].var + (1 - keep) * samples[i].params.var;
  }
  return true;
}

GradParams GradientStatistics::raw(int group) const {
  if (empty()) return {1, 0};
  if (averaging_ == Averaging::recent) return recent_.group(group);
  const GradParams& sum = sums_.at(static_cast<size_t>(group));
  return {sum.sqr / weight_, sum.var / weight_};
}

GradParams GradientStatistics::published(int group) const {
  const GradParams average = raw(group);
  // AdaptDL's lower bound has the magnitude of no particular gradient.
  const double least = averaging_ == Averaging::recent ? 0 : kSmallestVar;
  return {std::max(average.sqr, 0.0), std::max(average.var, least)};
}

GradParams GradientStatistics::published() const {
  GradParams sum;
  for (int group = 0; group < groups(); ++group) {
    const GradParams one = published(group);
    sum.sqr += one.sqr;
    sum.var += one.var;
  }
  return sum;
}

GradParams GradientStatistics::with_caution(GradParams params) const {
  if (averaging_ == Averaging::adaptdl) return params;
  if (empty() || !std::isfinite(recent_.error())) return {1, 0};  // nothing to count on
  params.sqr += recent_.error() * params.var;
  return params;
}

GradParams GradientStatistics::cautious(int group) const {
  return with_caution(published(group));
}

GradParams GradientStatistics::cautious() const {
  return with_caution(published());
}

double GradientStatistics::window() const {
  if (empty()) return 0;
  return averaging_ == Averaging::recent ? recent_.window() : 1 / (1 - kSmoothing);
}

double GradientStatistics::gain(double scale, int group) const {
  return empty() ? 1.0 : adaptdl::gain(cautious(group), scale);
}

double GradientStatistics::gain(double scale) const {
  return empty() ? std::min(1.0, scale) : adaptdl::gain(published(), scale);
}

nlohmann::json GradientStatistics::to_json() const {
  auto groups = nlohmann::json::array();
  for (const auto& sum : sums_) groups.push_back({sum.sqr, sum.var});
  nlohmann::json result = {
      {"groups", groups}, {"weight", weight_}, {"samples", samples_}, {"biased", biased_}};
  if (averaging_ == Averaging::recent) result["recent"] = recent_.to_json();
  return result;
}

GradientStatistics GradientStatistics::from_json(const nlohmann::json& json) {
  const std::string what = "gradient statistics";
  const auto groups = json_get<std::vector<std::vector<double>>>(json, "groups", what);
  if (groups.size() > kMostGroups) fail("{}: too many parameter groups: {}", what, groups.size());
  const bool recent = json.contains("recent");
  GradientStatistics result(static_cast<int>(groups.size()),
                            recent ? Averaging::recent : Averaging::adaptdl);
  if (recent) result.recent_ = RecentAverage::from_json(json.at("recent"), result.groups());
  result.samples_ = json_get_or<int64_t>(json, "samples", what, 0);  // none: of an earlier version
  if (result.samples_ < 0) fail("{}: samples is {}", what, result.samples_);
  result.weight_ = json_get<double>(json, "weight", what);
  result.biased_ = json_get<bool>(json, "biased", what);
  if (!(result.weight_ >= 0 && result.weight_ <= 1)) {
    fail("{}: weight is {}; it must be from 0 to 1", what, result.weight_);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].size() != 2 || !std::isfinite(groups[i][0]) || !std::isfinite(groups[i][1])) {
      fail("{}: parameter group {} must have two finite numbers", what, i);
    }
    result.sums_[i] = {groups[i][0], groups[i][1]};
  }
  return result;
}

}  // namespace adaptdl::gns
