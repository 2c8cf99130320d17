#include "core/client/local/curve.h"

#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/formats/json_fields.h"

namespace adaptdl::client {
namespace {

constexpr off_t kMostBytes = 16 << 20;
constexpr size_t kLongestLine = 1 << 20;
constexpr int kMostFiles = 4;  // in one call: a program may replace its files all the time
// Each other event of a run is rare, or of no interest here; parsing all would take a second.
constexpr std::string_view kStepEvent = "\"event\":\"step\"", kStartEvent = "\"event\":\"start\"";

std::optional<double> finite_number(const Json& event, const char* key) {
  const Json& value = member(event, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

class EventCurve : public CurveReader {
 public:
  explicit EventCurve(std::string path) : path_(std::move(path)) {}

  std::vector<CurvePoint> next() override {
    std::vector<CurvePoint> points;
    if (!begun_) open(path_ + ".1");
    begun_ = true;
    for (int file = 0; file < kMostFiles; ++file) {
      read_rest(points);
      if (!reopen()) break;
    }
    return points;
  }

 private:
  void open(const std::string& path) {
    line_.clear();
    inside_ = true;
    file_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    if (!file_ || fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      file_ = Fd();
      return;
    }
    if (status.st_size <= kMostBytes) return;
    lseek(file_.get(), status.st_size - kMostBytes, SEEK_SET);
    inside_ = false;
  }

  // Opens the present file if another one has been read to its end. The launcher renames a full
  // file before it creates the next one.
  bool reopen() {
    struct stat open_file {
    }, present{};
    if (stat(path_.c_str(), &present) != 0) return false;
    const bool same = file_ && fstat(file_.get(), &open_file) == 0 &&
                      open_file.st_ino == present.st_ino && open_file.st_dev == present.st_dev;
    if (same && lseek(file_.get(), 0, SEEK_CUR) <= present.st_size) return false;
    open(path_);
    return static_cast<bool>(file_);
  }

  void read_rest(std::vector<CurvePoint>& points) {
    if (!file_) return;
    std::string chunk(1 << 16, '\0');
    for (off_t done = 0; done <= kMostBytes;) {  // the rest follows in the next call
      const ssize_t got = read(file_.get(), chunk.data(), chunk.size());
      if (got <= 0) return;
      done += got;
      take_lines({chunk.data(), static_cast<size_t>(got)}, points);
    }
  }

  void take_lines(std::string_view bytes, std::vector<CurvePoint>& points) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      if (inside_) line_ += bytes.substr(0, end);
      if (line_.size() > kLongestLine) {
        line_.clear();
        inside_ = false;
      }
      if (end == std::string_view::npos) return;
      take_line(points);
      line_.clear();
      inside_ = true;
      bytes.remove_prefix(end + 1);
    }
  }

  void take_line(std::vector<CurvePoint>& points) {
    const bool step = line_.find(kStepEvent) != std::string::npos;
    if (!step && line_.find(kStartEvent) == std::string::npos) return;
    const Json event = Json::parse(line_, nullptr, false);
    if (!event.is_object()) return;
    if (!step) {
      started_s_ = parse_rfc3339_s(text_at(event, "started")).value_or(0);
      return;
    }
    CurvePoint point;
    point.time_s = started_s_ + finite_number(event, "time_s").value_or(0);
    point.step = finite_number(event, "step");
    point.loss = finite_number(event, "loss");
    point.goodput = finite_number(event, "goodput");
    points.push_back(point);
  }

  const std::string path_;
  Fd file_;
  bool begun_ = false;
  std::string line_;    // the incomplete one
  bool inside_ = true;  // false: the rest of a line whose start is skipped
  double started_s_ = 0;
};

}  // namespace

std::unique_ptr<CurveReader> read_curve(const std::string& path) {
  return std::make_unique<EventCurve>(path);
}

}  // namespace adaptdl::client
