#include "cli/show/chart.h"

#include <cmath>
#include <doctest/doctest.h>

namespace adaptdl::cli {
namespace {

size_t characters(const std::string& line) {
  size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::vector<ChartPoint> line_of(double from, double to, int count) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < count; ++i) {
    points.push_back({static_cast<double>(i), from + (to - from) * i / (count - 1)});
  }
  return points;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("a falling line") {
  CHECK(joined(chart_lines(line_of(4, 1, 8), {.width = 18, .height = 4})) ==
        "        4 **\n"
        "            **\n"
        "              **\n"
        "        1       **\n");
  CHECK(joined(chart_lines(line_of(4, 1, 8), {.width = 14, .height = 2, .utf8 = true})) ==
        "        4 \u2811\u2884\n"
        "        1   \u2811\u2884\n");
}

TEST_CASE("no line is wider than the chart, of any size") {
  const auto points = line_of(-1e-5, 123456, 1000);
  for (size_t width = 0; width < 100; ++width) {
    for (size_t height = 0; height < 12; ++height) {
      for (const bool utf8 : {false, true}) {
        const auto lines = chart_lines(points, {width, height, utf8});
        CHECK(lines.size() == height);
        for (const std::string& line : lines) CHECK(characters(line) <= width);
      }
    }
  }
}

TEST_CASE("points that say nothing") {
  const ChartLook look{.width = 20, .height = 3};
  const std::vector<std::string> empty(3);
  CHECK(chart_lines({}, look) == empty);
  CHECK(chart_lines({{NAN, 1}, {1, INFINITY}}, look) == empty);
  CHECK(chart_lines({{5, 2}}, look)[0].starts_with("        2"));  // the same range everywhere
  CHECK(chart_lines({{1, 2}, {2, NAN}, {3, 2}}, look)[1].find("**") != std::string::npos);
}

TEST_CASE("a loss that starts high leaves room for the rest") {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 100; ++i)
    points.push_back({static_cast<double>(i), 1000 * std::exp(-0.1 * i)});
  const auto lines = chart_lines(points, {.width = 30, .height = 10});
  for (const std::string& line : lines) CHECK(line.find('*') != std::string::npos);
  CHECK(lines[5].find('*') > 17);  // a straight line down, not a wall at the left
}

}  // namespace
}  // namespace adaptdl::cli
