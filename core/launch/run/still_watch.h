#pragma once

// Whether a whole run stands still, judged by its own history. Pure: the caller says what happened
// and when, and what its processes do (process_look.h).
//
// Slow is not hung. Between an event and the next one, the patience is the longest of a given time
// and kLongestGaps times the longest gap that has followed such an event. So the validation after a
// pass, for instance, is measured by earlier validations. While the silence may have a reason, its
// time counts only a tenth (kDoubt): the processes compute, or read or write; or nothing has
// followed such an event yet, as before the first step, and in the first validation. If it ends in
// a kill all the same, the next one may last kLongestGaps times as long: what is always so slow
// must not be killed for ever. Time in which nobody looked does not count: the machine was
// suspended, or the launcher was stopped, perhaps together with its replicas.

#include <map>
#include <string>

#include "core/base/clock.h"

namespace adaptdl::launch {

// One thread.
class StillWatch {
 public:
  static constexpr double kLongestGaps = 5;
  static constexpr double kDoubt = 0.1;
  static constexpr Seconds kMaxLook{2};  // a longer time between two looks counts as this

  // `least`: minimum patience.
  explicit StillWatch(Seconds least) : least_(least) {}

  // The run did something of that kind ("step", "validation", ...).
  void progress(TimePoint now, const std::string& kind);

  // Call at least every kMaxLook / 2 while the run should progress. `active`: its processes
  // compute, read or write, or it is not known what they do.
  void look(TimePoint now, bool active);

  // Instead of look(), while others judge the silence: the time only belongs to the gap.
  void elapse(TimePoint now) { pass(now); }

  // The silence ends in a kill, but may have had a reason. `doubt`: its time counted only a tenth.
  void remember(bool doubt);

  // The run need not progress now (nobody calls look()), or has been disturbed: the time until the
  // next progress says nothing about the run.
  void disturbed();

  // Replicas restart: what they do first is compared with the first start.
  void restart();

  // Whether anything has ever followed progress such as the last.
  bool known() const { return longest_.count(after_) != 0; }
  bool over() const { return waited_ >= patience(); }
  Seconds patience() const;
  Seconds waited() const { return waited_; }  // as counted
  Seconds silent() const { return silent_; }  // since the last progress, while somebody looked

 private:
  Seconds pass(TimePoint now);
  void learn(Seconds gap);

  Seconds least_, waited_{0}, silent_{0};
  TimePoint last_{};             // the last call; none: nobody looks
  std::string after_ = "start";  // the kind of the last progress
  bool disturbed_ = false;
  std::map<std::string, Seconds> longest_;  // gap after progress of a kind
};

}  // namespace adaptdl::launch
