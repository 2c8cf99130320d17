#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace adaptdl {

// The middle value, of an even number the smaller of the two. Requires: values. O(size).
inline double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace adaptdl
