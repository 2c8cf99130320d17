#pragma once

// Bounds of times on machines that others use, too.

#include <algorithm>

namespace adaptdl::testing {

// The least of up to three measurements in seconds, of which the first below `bound` is the last:
// a busy machine delays one of them, a slow implementation all.
template <typename Measure>
double least_of_three(double bound, Measure measure) {
  double least = measure();
  for (int i = 1; i < 3 && least >= bound; ++i) least = std::min<double>(least, measure());
  return least;
}

}  // namespace adaptdl::testing
