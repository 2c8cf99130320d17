#pragma once

// How reconcile() comes to its decision: one object for one call. Internal to it.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/kubernetes/reconcile.h"
#include "core/job/phase.h"

namespace adaptdl::kubernetes {

class Reconciler {
 public:
  static constexpr double kTrouble = 10;  // s before a pod that waits is shown as the job's reason
  static constexpr double kSettle = 10;   // s from one start to the next after a disruption

  Reconciler(const JobObject& job, const std::vector<PodFacts>& pods, const ClusterFacts& cluster);
  JobDecision run(const std::string& problem);
  JobDecision refused(const std::string& message, Refusal why);

 private:
  // reconcile.cpp
  JobDecision finished();
  static bool is_refusal(std::string_view named);  // a reason that pods_refused() gives
  void decide(const std::string& problem);
  bool all_succeeded() const;
  const PodFacts* first_ended() const;
  void ended_badly(const PodFacts& pod);
  static std::string because(const PodFacts& pod);
  void failure(std::string_view reason, const std::string& what);
  bool matches_allocation() const;
  bool complete() const;
  void start();
  std::string nodes_text() const;
  void pending(std::string_view reason, const std::string& message);
  void count_service();
  void stop(const std::string& why);
  void remove_all();
  void remove(const PodFacts& pod);
  void lost(const PodFacts& pod);
  void refused_by(const PodFacts& pod);
  void end(bool good, std::string_view reason, const std::string& message);
  void after_end();
  void look_again(double in_s);
  // When it will have waited for as long as the next of these; never, if all are over.
  void look_at(double waited_s, std::initializer_list<double> moments);
  void event(bool warning, std::string_view reason, const std::string& note);

  // reconcile_watch.cpp: of a group that runs, or is on its way
  void watch_live();
  void watch_newcomers();
  static std::string trouble_of(const PodFacts& pod);
  void watch_group();

  const JobObject& job_;
  const std::vector<PodFacts>& pods_;
  const ClusterFacts& cluster_;
  std::vector<const PodFacts*> group_;     // pods of the present group
  std::vector<const PodFacts*> deciding_;  // those whose end is its end: all, or the launcher's
  JobDecision decision_;
  JobStatus& status_;
  bool told_lost_ = false;  // lost() has told of a pod
};

}  // namespace adaptdl::kubernetes
