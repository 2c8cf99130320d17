#pragma once

// What a user sees of a run, as pure functions of its events (adaptdl-events(5)). Unknown events
// and fields are ignored; so are fields of an unexpected type.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::cli {

// How the parts of a global batch multiply: batch = replicas x atomic x passes.
struct BatchShape {
  int64_t replicas = 0;
  int64_t atomic = 0;  // samples of one forward and backward pass of a replica
  int64_t passes = 1;  // of a step; the event's `accumulation` counts those before the last
  int64_t batch = 0;
};

struct RunState {
  std::string name, program;
  int64_t replicas = 0;
  bool training = false;  // a step was seen
  bool ended = false;
  bool already = false;  // it had ended before this command
  int64_t step = 0;
  double epoch = 0.0;                           // passes over the data so far
  double time_s = 0.0;                          // of the newest event
  double progress = 0.0, progress_total = 0.0;  // scale-invariant iterations; total 0 = unknown
  std::optional<double> loss;                   // smoothed over about 10 steps
  std::optional<double> epoch_loss;             // mean of the newest whole pass
  std::optional<double> learning_rate;
  std::optional<double> samples_per_s, goodput;  // smoothed likewise
  BatchShape batch;
  std::vector<std::pair<std::string, double>> validation;  // newest metrics
  std::string result, model;
  std::optional<int64_t> steps, rescales;
  std::optional<double> seconds, lost_s;
  int64_t pauses = 0;  // rescales seen, and their pauses
  double paused_s = 0.0;

  // Takes in the next event.
  void apply(const Json& event);

  // Time left, seconds; nothing until enough is known.
  std::optional<double> seconds_left() const;

 private:
  // Progress and time of the last while, old parts weighing less: pauses count, jitter does not.
  double recent_progress_ = 0.0, recent_seconds_ = 0.0;
  std::optional<double> last_step_time_;
};

// The log line for an event, given the state before it; empty when it deserves none. On a
// terminal (`moving`) the display goes away at the end, and the summary says how, so that gets no
// line. `verbose`: generations and checkpoints, too.
std::string event_line(const RunState& before, const Json& event, bool moving,
                       bool verbose = false);

// Where there is no moving display: now and then a line that says how far the training is. By the
// events' own times: one after 10 s, then at most one every 10 s and every 1 % of the time so far,
// so that the log of a long run stays short.
class ProgressLines {
 public:
  // The line that is due with this event, given the state after it; mostly empty.
  std::string event(const RunState& now, const Json& event);

 private:
  double due_s_ = 10.0;
};

struct Look {
  int width = 80;
  bool utf8 = false;
  bool color = false;
};

// The display: exactly two lines, each narrower than the terminal; what does not fit is left out,
// least important first.
std::vector<std::string> display_lines(const RunState& state, const Look& look);

// After the end: what was trained, where it is saved, time lost to rescales. Several lines.
std::string summary(const RunState& state);

// "3 x 32 x 2 = 192"
std::string describe(const BatchShape& batch);

}  // namespace adaptdl::cli
