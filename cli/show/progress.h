#pragma once

// Text about a run, as pure functions of its events (adaptdl-events(5)). Ignores unknown events and
// fields, and fields of an unexpected type.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/json.h"
#include "core/launch/io/run_progress.h"

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
  bool evaluating = false;
  bool ended = false;
  bool already = false;  // the run had ended before this command
  int64_t step = 0;
  double epoch = 0.0;                           // passes over the data so far
  double time_s = 0.0;                          // of the newest event
  double progress = 0.0, progress_total = 0.0;  // scale-invariant iterations; total 0 = unknown
  std::optional<double> loss;                   // exponential average over about 10 steps
  std::optional<double> epoch_loss;             // mean of the newest complete pass
  std::optional<double> learning_rate;
  std::optional<double> samples_per_s, goodput;  // averaged likewise
  BatchShape batch;
  std::vector<std::pair<std::string, double>> validation;  // newest metrics
  std::string result, reason, model, best;
  std::string log_dir;     // of the replicas; "" if unknown
  std::string charts_dir;  // TensorBoard's folder, which the caller sets; "": none
  std::optional<int64_t> steps, rescales;
  std::optional<double> seconds, lost_s;
  int64_t pauses = 0;  // number of rescales seen; see paused_s for their pauses
  double paused_s = 0.0;

  // Updates the state with the next event.
  void apply(const Json& event);

  // Time left in seconds; nothing until enough is known.
  std::optional<double> seconds_left() const;

 private:
  launch::ProgressRate rate_;
};

// The log line for an event, given the state before it; "" for most events. On a terminal
// (`moving`) the summary replaces the display at the end, so `end` has no line. `verbose`: also
// generations and checkpoints.
std::string event_line(const RunState& before, const Json& event, bool moving,
                       bool verbose = false);

// Without a moving display: occasional lines about progress. By the events' own times: one after 10
// s, then at most one every 10 s and every 1 % of the time so far, so that the log of a long run
// stays short.
class ProgressLines {
 public:
  // The line that is due with this event, given the state after it; usually "".
  std::string event(const RunState& now, const Json& event);

 private:
  double due_s_ = 10.0;
};

struct Look {
  int width = 80;
  bool utf8 = false;
  bool color = false;
};

// The display: exactly two lines, each narrower than the terminal. Leaves out the least important
// fields if the terminal is too narrow.
std::vector<std::string> display_lines(const RunState& state, const Look& look);

// After the end: what was trained, where it is saved, the time lost to rescales. Several lines.
std::string summary(const RunState& state);

// After an evaluation: what was evaluated, and a table of its metrics.
std::string evaluation(const RunState& state);

// "replica 2 on node7 is slow: ...", with the evidence: of an event `straggler`, or of one of the
// stragglers in a run's status.
std::string slow_replica_line(const Json& straggler);

// "the network of node7 is slow: ...", likewise: of an event `slow_link`, or of one of the slow
// links in a run's status.
std::string slow_link_line(const Json& link);

// "3 x 32 x 2 = 192"
std::string describe(const BatchShape& batch);

}  // namespace adaptdl::cli
