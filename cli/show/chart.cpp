#include "cli/show/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <optional>

namespace adaptdl::cli {
namespace {

constexpr size_t kLabel = 9;  // columns of a number such as -1.23e-05, and a blank after it
constexpr double kLogFactor = 50;

// The characters of a chart as a grid of dots.
class Dots {
 public:
  Dots(size_t width, size_t height, bool braille)
      : across_(braille ? 2 : 1),
        down_(braille ? 4 : 1),
        width_(width * across_),
        height_(height * down_),
        set_(width_ * height_) {}

  size_t width() const { return width_; }
  size_t height() const { return height_; }
  void set(size_t x, size_t y) { set_[y * width_ + x] = true; }

  // From one dot to another, so that steep curves have no holes.
  void line(int x, int y, int to_x, int to_y) {
    const int steps = std::max({std::abs(to_x - x), std::abs(to_y - y), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      set(static_cast<size_t>(std::lround(x + part * (to_x - x))),
          static_cast<size_t>(std::lround(y + part * (to_y - y))));
    }
  }

  std::string character_line(size_t line) const {
    std::string text;
    for (size_t column = 0; column < width_ / across_; ++column) text += character(column, line);
    return text;
  }

 private:
  bool at(size_t x, size_t y) const { return set_[y * width_ + x]; }

  std::string character(size_t column, size_t line) const {
    if (down_ == 1) return at(column, line) ? "*" : " ";
    // Unicode's order of the eight dots: three of each column from the top, then the lowest two.
    constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    unsigned bits = 0;
    for (size_t y = 0; y < down_; ++y) {
      for (size_t x = 0; x < across_; ++x) {
        if (at(column * across_ + x, line * down_ + y)) bits |= kBits[y][x];
      }
    }
    if (bits == 0) return " ";
    // U+2800 + bits in UTF-8.
    return {'\xe2', static_cast<char>(0xa0 | (bits >> 6)), static_cast<char>(0x80 | (bits & 0x3f))};
  }

  size_t across_, down_, width_, height_;
  std::vector<bool> set_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Where the value lies, 0 to 1; the middle if all are the same.
  double part(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

// The mean of the points in each of `count` columns.
std::vector<std::optional<double>> column_means(const std::vector<ChartPoint>& points,
                                                size_t count) {
  Range range;
  const auto finite = [](const ChartPoint& point) {
    return std::isfinite(point.x) && std::isfinite(point.y);
  };
  for (const ChartPoint& point : points) {
    if (finite(point)) range.add(point.x);
  }
  std::vector<double> sums(count), counts(count);
  for (const ChartPoint& point : points) {
    if (!finite(point)) continue;
    const auto at =
        static_cast<size_t>(std::lround(range.part(point.x) * static_cast<double>(count - 1)));
    sums[at] += point.y;
    ++counts[at];
  }
  std::vector<std::optional<double>> means(count);
  for (size_t i = 0; i < count; ++i) {
    if (counts[i] > 0) means[i] = sums[i] / counts[i];
  }
  return means;
}

// Draws the columns' values; returns their range.
Range draw(std::vector<std::optional<double>> values, Dots& dots) {
  Range range;
  for (const auto& value : values) {
    if (value) range.add(*value);
  }
  const bool logarithmic = range.low > 0 && range.high / range.low > kLogFactor;
  const auto scaled = [&](double value) { return logarithmic ? std::log(value) : value; };
  const Range scale{scaled(range.low), scaled(range.high)};
  std::optional<std::pair<int, int>> before;
  for (size_t x = 0; x < values.size(); ++x) {
    if (!values[x]) continue;
    const double part = 1 - scale.part(scaled(*values[x]));
    const std::pair at{
        static_cast<int>(x),
        static_cast<int>(std::lround(part * static_cast<double>(dots.height() - 1)))};
    const auto [from_x, from_y] = before.value_or(at);
    dots.line(from_x, from_y, at.first, at.second);
    before = at;
  }
  return range;
}

}  // namespace

std::vector<std::string> chart_lines(const std::vector<ChartPoint>& points, const ChartLook& look) {
  std::vector<std::string> lines(look.height);
  if (look.width <= kLabel + 1 || look.height == 0) return lines;
  Dots dots(look.width - kLabel - 1, look.height, look.utf8);
  const Range range = draw(column_means(points, dots.width()), dots);
  if (range.low > range.high) return lines;
  for (size_t i = 0; i < look.height; ++i) {
    std::string label;
    if (i == 0) label = fmt::format("{:.3g}", range.high);
    if (i + 1 == look.height && range.low < range.high) label = fmt::format("{:.3g}", range.low);
    lines[i] = fmt::format("{:>{}} {}", label, kLabel, dots.character_line(i));
    while (lines[i].ends_with(' ')) lines[i].pop_back();
  }
  return lines;
}

}  // namespace adaptdl::cli
