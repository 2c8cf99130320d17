#pragma once

// What a vectors check found: how many comparisons, the largest error and where it was.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <string>

namespace adaptdl::vectors {

class Report {
 public:
  // Relative to the expected value, or to `least` where that is smaller than it. A result that is
  // not a number counts as an infinite error.
  void relative(const std::string& where, double got, double want, double tolerance,
                double least = 1e-300) {
    double error = std::abs(got - want) / std::max(std::abs(want), least);
    if (got == want) error = 0;
    take(where, got, want, error, tolerance);
  }

  // `got` may be below `want`, but not above it by more than `tolerance`.
  void not_above(const std::string& where, double got, double want, double tolerance) {
    take(where, got, want, std::max(got - want, 0.0), tolerance);
  }

  void require(const std::string& where, bool good, const std::string& rule) {
    ++checks_;
    if (good) return;
    ++failures_;
    complain(fmt::format("{}: {}", where, rule));
  }

  void add_case() { ++cases_; }
  bool passed() const { return failures_ == 0 && cases_ > 0; }

  // One section's line on stdout.
  void print(const std::string& section) const {
    fmt::print("{}: {} cases, {} checks, {} failed; largest error {:.3g}{}\n", section, cases_,
               checks_, failures_, worst_, where_.empty() ? "" : " at " + where_);
    if (cases_ == 0) fmt::print("{}: the file holds no case\n", section);
  }

 private:
  void take(const std::string& where, double got, double want, double error, double tolerance) {
    ++checks_;
    if (!(error <= std::numeric_limits<double>::max())) {
      error = std::numeric_limits<double>::infinity();
    }
    if (error > worst_) {
      worst_ = error;
      where_ = where;
    }
    if (error <= tolerance) return;
    ++failures_;
    complain(fmt::format("{}: {:.12g}, expected {:.12g}, error {:.3g} above {:.3g}", where, got,
                         want, error, tolerance));
  }

  void complain(const std::string& line) const {
    constexpr int kMostLines = 20;
    if (failures_ <= kMostLines) fmt::print(stderr, "{}\n", line);
  }

  int cases_ = 0, checks_ = 0, failures_ = 0;
  double worst_ = 0;
  std::string where_;
};

}  // namespace adaptdl::vectors
