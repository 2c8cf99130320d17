#pragma once

// A curve as lines of text: braille characters of 2 x 4 dots each, or asterisks. Pure.

#include <string>
#include <vector>

namespace adaptdl::cli {

struct ChartPoint {
  double x = 0, y = 0;
};

struct ChartLook {
  size_t width = 72;  // columns, labels included
  size_t height = 8;  // lines
  bool utf8 = false;
};

// `height` lines of at most `width` columns, the largest value at the top with its number, the
// smallest at the bottom. Points that fall into one column count by their mean. The scale is
// logarithmic if all values are positive and differ by more than a factor of 50, as those of a loss
// that starts high. Ignores points that are not finite. Without points, or room for them, the lines
// are empty.
std::vector<std::string> chart_lines(const std::vector<ChartPoint>& points, const ChartLook& look);

}  // namespace adaptdl::cli
