#include "core/sched/length_history.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace adaptdl {
namespace {

// Jobs that are alike still differ in length: a job that is about to exceed an earlier length need
// not be about to end.
constexpr double kLeastRest = 0.3;

std::string program_key(const JobLikeness& job) {
  return "program " + job.program;
}

std::string run_key(const JobLikeness& job) {
  return "run " + job.program + '\0' + job.arguments;
}

}  // namespace

double gittins_rank(std::span<const double> lengths, double attained) {
  std::vector<double> left;
  for (const double length : lengths) {
    if (length > attained) left.push_back(length - attained);
  }
  if (left.empty()) return attained;
  std::sort(left.begin(), left.end());
  // Only the lengths themselves can be the best d.
  double best = std::numeric_limits<double>::infinity(), before = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    before += left[i];
    const auto ended = static_cast<double>(i + 1);
    const double others = static_cast<double>(left.size() - i - 1) * left[i];
    best = std::min(best, (before + others) / ended);
  }
  return std::max(best, kLeastRest * attained);
}

std::string name_stem(std::string_view job) {
  return std::string(job.substr(0, job.rfind('-')));
}

void LengthHistory::add(const JobLikeness& job, double service) {
  ended_.push_back({program_key(job), run_key(job)});
  lengths_[ended_.back().program].push_back(service);
  lengths_[ended_.back().run].push_back(service);
  if (ended_.size() <= kMost) return;
  for (const std::string& key : {ended_.front().program, ended_.front().run}) {
    const auto found = lengths_.find(key);
    found->second.pop_front();
    if (found->second.empty()) lengths_.erase(found);
  }
  ended_.pop_front();
}

const std::deque<double>* LengthHistory::find(const std::string& key) const {
  const auto found = lengths_.find(key);
  return found == lengths_.end() ? nullptr : &found->second;
}

std::optional<double> LengthHistory::rank(const JobLikeness& job, double attained) const {
  const std::deque<double>* alike = find(run_key(job));
  if (alike == nullptr) alike = find(program_key(job));
  if (alike == nullptr) return std::nullopt;
  const size_t count = std::min(kNewest, alike->size());
  return gittins_rank(
      std::vector<double>(alike->end() - static_cast<std::ptrdiff_t>(count), alike->end()),
      attained);
}

}  // namespace adaptdl
