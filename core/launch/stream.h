#pragma once

// The run's stream of events, out of what its replicas send and what the launcher itself knows.
// Rank 0 speaks for a generation; when it changes hands, the new one's events wait until all of the
// old one's are there, so that the stream stays in order. Steps that were had already are dropped.

#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/output.h"
#include "core/launch/rendezvous.h"

namespace adaptdl::launch {

// One thread.
class EventStream {
 public:
  // `on_step` is called for every finished step that no earlier attempt had finished.
  EventStream(Output& output, TimePoint start, std::function<void(int64_t step)> on_step)
      : output_(output), start_(start), on_step_(std::move(on_step)) {}

  // One event of the launcher's own, now. Adds time_s.
  void emit(nlohmann::json event);

  // From a replica, in the order in which it sent them.
  void event(MemberId from, nlohmann::json event);
  // A member trains in that generation, which goes on after `step`.
  void switched(uint64_t generation, int64_t step) { switched_[generation] = step; }

  // This generation is in force now, after one of `from` members (0 = none).
  void generation(const Generation& generation, int from);

  // Lets out what no longer has to wait. Call after every change of the view; at the end with
  // `all`.
  void advance(const View& view, bool all = false);

  int64_t last_step() const { return last_step_; }
  int64_t highest_step() const { return highest_step_; }
  int rescales() const { return rescales_; }
  double lost_s() const { return lost_s_; }
  // The median pause of a rescale so far, in seconds.
  std::optional<double> rescale_cost_s() const;
  const nlohmann::json& newest(const char* field) const;     // of the step events; null if none
  const nlohmann::json& worker_end() const { return end_; }  // what rank 0 said of the end, or null
  double elapsed_s() const { return seconds_since(start_); }

 private:
  struct Term {  // of one generation's rank 0
    Generation generation;
    int from = 0;
    MemberId speaker = 0;
  };

  void begin(const Term& term);
  void let_out(nlohmann::json event);
  void step(nlohmann::json event);
  void rescale(nlohmann::json event);

  Output& output_;
  const TimePoint start_;
  const std::function<void(int64_t)> on_step_;
  std::deque<Term> terms_;  // the first is under way
  std::map<MemberId, std::vector<nlohmann::json>> held_;
  std::map<uint64_t, int64_t> switched_;  // by generation; its members agree
  std::map<uint64_t, Term> known_;        // by number
  int64_t last_step_ = 0, highest_step_ = 0;
  nlohmann::json newest_step_ = nlohmann::json::object(), end_;
  int rescales_ = 0;
  double lost_s_ = 0;
  std::deque<double> pauses_;  // newest
};

}  // namespace adaptdl::launch
