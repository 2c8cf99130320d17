#include "core/sim/plot.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {
namespace {

constexpr double kWidth = 960, kLeft = 64, kRight = 150, kTop = 34, kCurves = 260, kGap = 44;

// Okabe and Ito's colours, distinguishable with any kind of colour vision.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f"};

const char* colour(size_t index) {
  return kColours[index % std::size(kColours)];
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '<') {
      result += "&lt;";
    } else if (letter == '>') {
      result += "&gt;";
    } else if (letter == '&') {
      result += "&amp;";
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      result += ' ';  // XML has no way to write control characters
    } else {
      result += letter;
    }
  }
  return result;
}

std::string label(double x, double y, std::string_view text, const char* anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* stroke) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
      y2, stroke);
}

// A step of 1, 2 or 5 times a power of ten that divides `range` into some six parts.
double tick_step(double range) {
  const double rough = range / 6, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

double plot_width() {
  return kWidth - kLeft - kRight;
}

std::string panel(const PlotRun& run, double top, double height, double end_s,
                  const std::map<std::string, size_t>& applications) {
  std::map<std::string, std::string> application_of;
  for (const JobResult& job : run.jobs) application_of[job.name] = job.application;
  const double per_s = plot_width() / end_s, row = height / std::max(1, run.gpus);
  std::string text = label(kLeft, top - 8, run.policy + ": GPUs by job");
  text +=
      fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" fill=\"#f4f4f4\"/>\n",
                  kLeft, top, plot_width(), height);
  for (const GpuSpan& span : run.spans) {
    text += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\">"
        "<title>{} {:.0f}-{:.0f} s</title></rect>\n",
        kLeft + span.from_s * per_s, top + span.gpu * row,
        std::max(0.2, (span.to_s - span.from_s) * per_s), row * 0.9,
        colour(applications.at(application_of[span.job])), escaped(span.job), span.from_s,
        span.to_s);
  }
  text += label(kLeft - 6, top + 10, "0", "end");
  text += label(kLeft - 6, top + height, fmt::format("{}", run.gpus), "end");
  const double step = tick_step(end_s / 3600);
  for (double hour = 0; hour * 3600 <= end_s; hour += step) {
    const double x = kLeft + hour * 3600 * per_s;
    text += line(x, top + height, x, top + height + 4, "#444");
    text += label(x, top + height + 16, format_number(hour) + " h", "middle");
  }
  return text;
}

// Shares of jobs over completion time, its axis logarithmic.
std::string curves(const std::vector<PlotRun>& runs, double top) {
  double low = 1e300, high = 0;
  std::vector<std::vector<double>> times;
  for (const PlotRun& run : runs) {
    times.emplace_back();
    for (const JobResult& job : run.jobs) {
      if (job.jct_s > 0) times.back().push_back(job.jct_s);
    }
    std::sort(times.back().begin(), times.back().end());
    if (times.back().empty()) continue;
    low = std::min(low, times.back().front());
    high = std::max(high, times.back().back());
  }
  std::string text = label(kLeft, top - 8, "Share of jobs that took no longer than");
  if (high <= 0) return text;
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high) + 1e-9));
  const double per_decade = plot_width() / std::max(1, last - first);
  for (int decade = first; decade <= last; ++decade) {
    const double x = kLeft + (decade - first) * per_decade;
    text += line(x, top, x, top + kCurves, "#ddd");
    text += label(x, top + kCurves + 16, format_duration(std::pow(10, decade)), "middle");
  }
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double y = top + kCurves * (1 - quarter / 4.0);
    text += line(kLeft, y, kLeft + plot_width(), y, "#ddd");
    text += label(kLeft - 6, y + 4, fmt::format("{} %", quarter * 25), "end");
  }
  for (size_t r = 0; r < runs.size(); ++r) {
    std::string points;
    const auto count = static_cast<double>(runs[r].jobs.size());
    for (size_t i = 0; i < times[r].size(); ++i) {
      const double x = kLeft + (std::log10(times[r][i]) - first) * per_decade;
      for (const size_t done : {i, i + 1}) {
        points += fmt::format("{:.1f},{:.1f} ", x,
                              top + kCurves * (1 - static_cast<double>(done) / count));
      }
    }
    text +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" points=\"{}\"/>\n",
                    colour(r), points);
    const double y = top + 12 + 16 * static_cast<double>(r);
    text += line(kWidth - kRight + 10, y - 4, kWidth - kRight + 28, y - 4, colour(r));
    text += label(kWidth - kRight + 34, y, runs[r].policy);
  }
  return text;
}

}  // namespace

std::string plot_svg(const std::vector<PlotRun>& runs) {
  std::map<std::string, size_t> applications;
  double end_s = 1;
  for (const PlotRun& run : runs) {
    for (const JobResult& job : run.jobs) {
      applications.emplace(job.application, 0);
      end_s = std::max(end_s, job.completed_s);
    }
    for (const GpuSpan& span : run.spans) end_s = std::max(end_s, span.to_s);
  }
  size_t count = 0;
  for (auto& [name, index] : applications) index = count++;

  std::string body;
  double top = kTop;
  for (const PlotRun& run : runs) {
    const double height = std::clamp(3.0 * run.gpus, 60.0, 400.0);
    body += panel(run, top, height, end_s, applications);
    double y = top + 12;
    for (const auto& [name, index] : applications) {
      body += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                          kWidth - kRight + 14, y - 9, colour(index));
      body += label(kWidth - kRight + 34, y, name);
      y += 16;
    }
    top += std::max(height, 16.0 * static_cast<double>(applications.size())) + kGap;
  }
  body += curves(runs, top);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"11\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
             kWidth, top + kCurves + kGap) +
         body + "</svg>\n";
}

}  // namespace adaptdl
