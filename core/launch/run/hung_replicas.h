#pragma once

// How long the others wait for a replica that neither dies nor arrives: its program hangs, or it
// was stopped. A step needs all members, so one such replica blocks the whole run. Where nobody
// waits for others, and yet nothing happens, all replicas hang, or the only one does: StillWatch.

#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/hang_watch.h"
#include "core/launch/io/run_report.h"
#include "core/launch/run/membership.h"
#include "core/launch/run/process_look.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/still_watch.h"

namespace adaptdl::launch {

// Finds the replicas that the others wait for, or all of them when the whole run stands still;
// tells the user, and kills them when the patience ends. Keeps for the user what they were doing.
// Both are judged by the gaps in the run's history (StillWatch), since a validation is as long as
// it is, whether the replicas end it together or wait for the slowest. While one writes a model,
// nothing counts. One thread.
class HungReplicas {
 public:
  // `least`: as for HangWatch. `whole`: whether also to watch the whole run; an evaluation has no
  // history to be judged by. `log_dir`: for hang-N.txt; "": none is written. Borrows `report`.
  HungReplicas(double least, bool whole, std::string log_dir, RunReport& report)
      : watch_(least),
        still_(Seconds(least)),
        whole_(whole),
        log_dir_(std::move(log_dir)),
        report_(report) {}

  HangWatch& watch() { return watch_; }

  // A replica has sent an event of that kind.
  void progressed(const std::string& kind);
  // A replica was stopped or continued.
  void disturbed();
  // No replica with state is left; new ones are started.
  void restarting();

  // Whether to call check() every HangWatch::kLook.
  bool counting() const { return watch_.counting() || looks_; }

  // Call after every event, and while counting(). `step`: the newest finished one.
  void check(const View& view, ReplicaSet& replicas, int64_t step);

 private:
  void check_absent(const std::vector<Replica*>& absent, bool stopped, ReplicaSet& replicas,
                    int64_t step);
  void check_still(const View& view, ReplicaSet& replicas, int64_t step);
  Activity activity(const std::vector<Replica*>& members, TimePoint now);
  void remember(Activity activity);
  void give_up(const std::vector<Replica*>& hung, const std::string& what, Seconds waited,
               ReplicaSet& replicas, int64_t step);

  HangWatch watch_;
  StillWatch still_;
  const bool whole_;
  const std::string log_dir_;
  RunReport& report_;
  bool told_ = false, told_still_ = false;
  bool looks_ = false;  // at the whole run
  std::map<MemberId, ProcessWork> work_;
  TimePoint worked_at_{};
  Activity activity_ = Activity::unknown;  // at the last look
};

}  // namespace adaptdl::launch
