#include "cli/show/top_view.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "cli/show/chart.h"
#include "cli/show/job_order.h"
#include "cli/show/keys.h"
#include "core/base/number.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMostPoints = 1 << 16;  // of one job
constexpr size_t kTopPage = 10;

std::string row_identity(const JobRow& row) {
  return row.kind + "/" + row.name;
}

// Every other point: an older part of the curve loses detail.
void thin_out(std::vector<CurvePoint>& points) {
  size_t kept = 0;
  for (size_t i = 1; i < points.size(); i += 2) points[kept++] = points[i];
  points.resize(kept);
}

// By step if all points have one, else by the time in seconds.
std::vector<ChartPoint> chart_points(const std::vector<CurvePoint>& points,
                                     std::optional<double> CurvePoint::*value) {
  const bool by_step = std::all_of(points.begin(), points.end(),
                                   [](const CurvePoint& point) { return point.step.has_value(); });
  std::vector<ChartPoint> result;
  for (const CurvePoint& point : points) {
    if (point.*value) result.push_back({by_step ? *point.step : point.time_s, *(point.*value)});
  }
  return result;
}

std::string newest_text(const std::vector<ChartPoint>& points) {
  return points.empty() ? "no values yet" : fmt::format("{:.4g}", points.back().y);
}

// What the horizontal axis spans.
std::string span_text(const std::vector<CurvePoint>& points) {
  if (points.empty()) return "";
  const CurvePoint &first = points.front(), &last = points.back();
  if (first.step && last.step)
    return fmt::format("steps {:.0f} to {:.0f}", *first.step, *last.step);
  return "the last " + short_duration(last.time_s - first.time_s);
}

std::string facts_line(const JobRow& row, bool over) {
  std::vector<std::string> parts = {row.name, row.kind, over ? "ended or gone" : row.status};
  const auto add = [&](const char* name, const std::string& value) {
    if (!over && !value.empty() && value != "-") parts.push_back(fmt::format("{} {}", name, value));
  };
  add("replicas", row.replicas);
  add("epoch", row.epoch);
  add("done", row.done);
  add("left", row.left);
  add("batch", row.batch);
  add("GPUs", row.gpus);
  add("age", row.age);
  return without_controls(fmt::format("{}", fmt::join(parts, "  ")));
}

void cut_to(std::vector<std::string>& lines, const TopLook& look) {
  if (lines.size() > look.height) lines.resize(look.height);
}

}  // namespace

std::string gpu_line(size_t number, const Gpu& gpu, const GpuLoad& load) {
  std::string line = fmt::format("GPU {}  {}", number, gpu.name);
  if (load.busy_percent) line += fmt::format("  {} % busy", *load.busy_percent);
  if (load.memory_used_bytes) {
    line += fmt::format("  {} of {}", format_bytes(*load.memory_used_bytes),
                        format_bytes(gpu.memory_bytes));
  }
  if (load.temperature_c) line += fmt::format("  {} C", *load.temperature_c);
  if (load.power_w) line += fmt::format("  {:.0f} W", *load.power_w);
  return line;
}

std::string top_text(const std::string& head, const std::vector<JobRow>& rows, size_t width) {
  if (rows.empty()) return head + "\n\nNo job is pending or training.\n";
  return head + "\n\n" + rows_table(rows, job_columns(rows, {.figures = true, .width = width}));
}

TopView::TopView(std::string order, bool reverse) : order_(std::move(order)), reverse_(reverse) {}

void TopView::update(std::string head, std::vector<JobRow> rows, double now_s) {
  head_ = std::move(head);
  listed_ = std::move(rows);
  now_s_ = now_s;
  std::set<std::string> present = {charted_};
  for (const JobRow& row : listed_) {
    see(row);
    present.insert(row_identity(row));
  }
  std::erase_if(curves_, [&](const auto& curve) { return !present.contains(curve.first); });
  sort();
  if (const JobRow* row = charted()) last_charted_ = *row;
}

// Keeps what the status of a job says at each look, for jobs that keep no curve themselves.
void TopView::see(const JobRow& row) {
  Curve& curve = curves_[row_identity(row)];
  const TrainingFacts& now = row.training;
  if (curve.read || (!now.loss && !now.goodput)) return;
  const bool same = now.step && !curve.points.empty() && curve.points.back().step == now.step;
  if (same) return;
  curve.points.push_back({now_s_, now.step, now.loss, now.goodput});
  if (curve.points.size() > kMostPoints) thin_out(curve.points);
}

void TopView::sort() {
  rows_ = listed_;
  sort_rows(rows_, order_, reverse_);
  if (rows_.empty()) {
    selected_.clear();
    return;
  }
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const JobRow& row) {
    return row_identity(row) == selected_;
  });
  // The place of a job that is gone goes to the next one.
  select(found == rows_.end() ? selected_index_ : static_cast<size_t>(found - rows_.begin()));
}

void TopView::select(size_t index) {
  if (rows_.empty()) return;
  selected_index_ = std::min(index, rows_.size() - 1);
  selected_ = row_identity(rows_[selected_index_]);
}

const JobRow* TopView::selected() const {
  return selected_index_ < rows_.size() ? &rows_[selected_index_] : nullptr;
}

const JobRow* TopView::charted() const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const JobRow& row) { return row_identity(row) == charted_; });
  return found == rows_.end() ? nullptr : &*found;
}

bool TopView::key(int key) {
  if (!charted_.empty()) {
    // q and Escape go back; so does Enter, by which one got here.
    if (key == 'q' || key == kKeyEscape || key == kKeyEnter) charted_.clear();
    return true;
  }
  const auto& orders = job_orders();
  const size_t before = selected_index_;
  switch (key) {
    case 'q':
      return false;
    case kKeyUp:
    case 'k':
      select(before > 0 ? before - 1 : 0);
      break;
    case kKeyDown:
    case 'j':
      select(before + 1);
      break;
    case kKeyPageUp:
      select(before > kTopPage ? before - kTopPage : 0);
      break;
    case kKeyPageDown:
      select(before + kTopPage);
      break;
    case kKeyHome:
    case 'g':
      select(0);
      break;
    case kKeyEnd:
    case 'G':
      select(rows_.size());
      break;
    case 's': {
      const auto at = std::find(orders.begin(), orders.end(), order_) - orders.begin();
      order_ = std::string(orders[(static_cast<size_t>(at) + 1) % orders.size()]);
      sort();
      break;
    }
    case 'r':
      reverse_ = !reverse_;
      sort();
      break;
    case kKeyEnter:
      if (const JobRow* row = selected()) {
        charted_ = row_identity(*row);
        last_charted_ = *row;
      }
      break;
    default:
      break;
  }
  return true;
}

std::optional<std::string> TopView::charted_job() const {
  if (charted_.empty() || last_charted_.kind != "job") return std::nullopt;
  return last_charted_.name;
}

void TopView::add_curve(const std::vector<CurvePoint>& points) {
  if (points.empty()) return;  // the job may keep none: then what was seen is all there is
  Curve& curve = curves_[charted_];
  if (!curve.read) curve.points.clear();
  curve.read = true;
  curve.points.insert(curve.points.end(), points.begin(), points.end());
  while (curve.points.size() > kMostPoints) thin_out(curve.points);
}

std::vector<std::string> TopView::list_lines(const TopLook& look) const {
  std::vector<std::string> lines = adaptdl::split(top_text(head_, rows_, look.width), '\n');
  lines.pop_back();  // the text ends with a line's end
  for (std::string& line : lines) line = line.substr(0, look.width);
  if (rows_.empty()) return lines;
  // The head, a blank line, the names of the columns; and below a blank line, the help.
  const size_t above = adaptdl::split(head_, '\n').size() + 2, below = 2;
  lines[above + selected_index_] =
      fmt::format("\x1b[7m{:<{}}\x1b[0m", lines[above + selected_index_], look.width);
  // Scroll as far as needed to show the selected row.
  const size_t room = look.height > above + below ? look.height - above - below : 1;
  const size_t skipped = selected_index_ >= room ? selected_index_ - room + 1 : 0;
  const auto rows = lines.begin() + static_cast<std::ptrdiff_t>(above);
  lines.erase(rows, rows + static_cast<std::ptrdiff_t>(skipped));
  if (lines.size() > above + room) lines.resize(above + room);
  const std::string help =
      fmt::format("Up/Down select  Enter chart  s sort ({}{})  r reverse  q quit", order_,
                  reverse_ ? ", reversed" : "");
  lines.emplace_back();
  lines.push_back(help.substr(0, look.width));
  return lines;
}

std::vector<std::string> TopView::chart_screen(const TopLook& look) const {
  std::vector<std::string> lines = {facts_line(last_charted_, charted() == nullptr), ""};
  const auto found = curves_.find(charted_);
  static const Curve none;
  const Curve& curve = found == curves_.end() ? none : found->second;
  constexpr size_t kOther = 6;  // two lines above, two titles, the axis, the help
  const size_t height = look.height > kOther + 2 ? (look.height - kOther) / 2 : 1;
  const auto add = [&](const char* title, std::optional<double> CurvePoint::*value) {
    const std::vector<ChartPoint> points = chart_points(curve.points, value);
    lines.push_back(fmt::format("{}: {}", title, newest_text(points)).substr(0, look.width));
    const auto drawn = chart_lines(points, {look.width, height, look.utf8});
    lines.insert(lines.end(), drawn.begin(), drawn.end());
  };
  add("loss", &CurvePoint::loss);
  add("goodput (samples/s)", &CurvePoint::goodput);
  lines.push_back(fmt::format("{}{}", span_text(curve.points),
                              curve.read ? "" : " (seen since this command began)"));
  lines.emplace_back("q or Escape: back");
  for (const size_t i : {size_t{0}, lines.size() - 2, lines.size() - 1}) {
    lines[i] = lines[i].substr(0, look.width);
  }
  return lines;
}

std::vector<std::string> TopView::lines(const TopLook& look) const {
  std::vector<std::string> lines = charted_.empty() ? list_lines(look) : chart_screen(look);
  cut_to(lines, look);
  return lines;
}

std::string TopView::text() const {
  return top_text(head_, rows_, 0);
}

}  // namespace adaptdl::cli
