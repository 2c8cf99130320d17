#pragma once

// How long jobs took that have ended: a prior for the length of jobs that do not tell theirs.

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace adaptdl {

// Which jobs are alike. Equal texts mean the same.
struct JobLikeness {
  std::string program;    // what runs, whatever its arguments and settings are
  std::string arguments;  // and settings: with the same ones it should take equally long
};

// A job's name without its last part, a number or random letters: digits-x2f9a is digits.
std::string name_stem(std::string_view job);

// The service per job that ends soon (Gittins rank) of a job that has had `attained` of it, if its
// whole service is distributed like `lengths`: the least ratio, over all d > 0, of the expected
// service within d to the probability of the end within d. To serve the job of the least rank is
// optimal for the mean completion time on one server (Gittins 1989; Aalto, Ayesta, Righter 2009).
// At least 0.3 of `attained`, since lengths of jobs that are alike differ; if no length is beyond
// it, `attained`: the longer a job has lasted, the longer it will still last. All in GPU seconds;
// >= 0. O(n log n).
double gittins_rank(std::span<const double> lengths, double attained);

// One thread.
class LengthHistory {
 public:
  static constexpr size_t kMost = 1000;  // jobs that are remembered
  static constexpr size_t kNewest = 50;  // of those that are alike, these count

  // A job that has ended well after `service` GPU seconds. Later calls are for later jobs.
  void add(const JobLikeness& job, double service);

  // The Gittins rank of a job, in GPU seconds: from jobs of the same program with the same
  // arguments; if there are none, of the same program; else none.
  std::optional<double> rank(const JobLikeness& job, double attained) const;

  bool empty() const { return ended_.empty(); }

 private:
  struct Ended {
    std::string program, run;
  };
  const std::deque<double>* find(const std::string& key) const;

  std::deque<Ended> ended_;
  std::unordered_map<std::string, std::deque<double>> lengths_;  // oldest first; none is empty
};

}  // namespace adaptdl
