#pragma once

// The run's stream of events, from what its replicas send and what the launcher knows. Rank 0
// speaks for a generation. When rank 0 changes, the events of the new one wait until all events of
// the old one are there, so that the stream stays in order. Steps that were seen before are
// dropped.

#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/launch/hosts/agent_link.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/membership.h"

namespace adaptdl::launch {

// One thread.
class EventStream {
 public:
  // Calls `on_step` for every finished step that no earlier attempt had finished.
  // `goes_on`: the steps so far are those of a launcher that is lost. Then nothing is emitted until
  // lead(): perhaps another one leads.
  EventStream(RunReport& report, bool goes_on, std::function<void(int64_t step)> on_step)
      : report_(report), goes_on_(goes_on), leads_(!goes_on), on_step_(std::move(on_step)) {}

  // `told`: up to where the lost launcher has emitted its events.
  void lead(const PassedOn& told) {
    leads_ = true;
    told_before_ = told;
  }

  // An event from a replica, in the order in which it sent them.
  void event(MemberId from, nlohmann::json event);
  // A member trains in that generation, which continues after `step`.
  void switched(uint64_t generation, int64_t step) { switched_[generation] = step; }

  // Takes note of the generation in force, and emits the events that no longer need to wait. Call
  // after every change of the view; at the end with `all`.
  void advance(const View& view, bool all = false);

  // No replica of the generation in force is left: the next one starts from a checkpoint.
  void restarting(const View& view) { members_ = view.current.members.size(); }

  bool holds_any() const;  // events that have to wait
  PassedOn told() const;   // up to where all events were emitted, but for those

  int64_t last_step() const { return last_step_; }
  int64_t highest_step() const { return highest_step_; }
  int rescales() const { return rescales_; }
  double lost_s() const { return lost_s_; }
  // The median pause of a rescale so far, in seconds.
  std::optional<double> rescale_cost_s() const;
  const nlohmann::json& newest(const char* field) const;  // of the step events; null if none
  const nlohmann::json& worker_end() const {
    return end_;
  }  // rank 0's event about the end, or null

 private:
  struct Term {  // of one generation's rank 0
    Generation generation;
    int from = 0;  // members of the previous one; 0: nobody trained
    MemberId speaker = 0;
    std::string accelerator;  // kind that its members train on; "": unknown
  };

  void note(const View& view);
  void begin(const Term& term);
  // Steps of generations before that, which a lost launcher had not emitted, in order.
  std::vector<nlohmann::json> take_earlier_steps(uint64_t generation);
  void let_out(nlohmann::json event);
  void forget_the_gone(const View& view);
  void step(nlohmann::json event);
  void rescale(nlohmann::json event);

  RunReport& report_;
  const bool goes_on_;
  bool leads_;
  PassedOn told_before_;
  const std::function<void(int64_t)> on_step_;
  uint64_t number_ = 0;  // of the generation in force, and its members
  size_t members_ = 0;
  std::deque<Term> terms_;  // the first is the present one
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
